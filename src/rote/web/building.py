from __future__ import annotations
def routes(state): return []
