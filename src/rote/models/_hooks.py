"""Places to hook: modules that hand on what they are given, under the names that users of TransformerLens know.

They have no weights. `module.blocks[0].attn.hook_pattern.register_forward_hook(...)` sees the attention weights, and
may return others in their place.
"""

from __future__ import annotations

from torch import nn

__all__ = ["Block", "HeadPoints", "UnitPoints"]


class HeadPoints(nn.Module):
    """Attention weights (B, H, S) of the last position, and what the heads read (B, H, d_h)."""

    def __init__(self) -> None:
        super().__init__()
        self.hook_pattern, self.hook_z = nn.Identity(), nn.Identity()


class UnitPoints(nn.Module):
    """The units of an MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.hook_post = nn.Identity()


class Block(nn.Module):
    """The hook points of a layer: the stream before it, behind its attention and behind all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.hook_resid_pre, self.hook_resid_mid, self.hook_resid_post = nn.Identity(), nn.Identity(), nn.Identity()
        self.attn, self.mlp = HeadPoints(), UnitPoints()
