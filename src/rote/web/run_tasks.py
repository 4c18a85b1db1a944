from __future__ import annotations
from typing import Any
TASKS: dict[str, Any] = {}
