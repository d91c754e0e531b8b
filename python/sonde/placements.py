"""How a DTensor is distributed, in words."""

import contextlib
from typing import Any

from .replicas import writer_of


def layout_of(spec: Any) -> str:
    """`Shard(0) of (16, 8) on tp=2, from (8, 0)`, of the `_spec` of a DTensor: its placement for each dimension of the
    mesh, its global shape, the mesh, and where the local tensor begins, if it is a part."""
    mesh, shape = spec.mesh, tuple(spec.shape)
    names = mesh.mesh_dim_names or [f"dim{i}" for i in range(mesh.ndim)]
    sizes = " × ".join(f"{name}={size}" for name, size in zip(names, mesh.shape, strict=True))
    text = f"{', '.join(_word(one) for one in spec.placements)} of {shape} on {sizes}"
    return text + _beginning(shape, mesh, spec.placements)


def described(spec: Any) -> tuple[str, int]:
    """Its text, and the rank that writes it (replicas.writer_of). Where the mesh cannot be asked, as under a tracer,
    each rank writes its own."""
    writer = 0
    with contextlib.suppress(Exception):
        writer = writer_of(spec)
    return layout_of(spec), writer


def _word(placement: Any) -> str:
    """`Shard(0)`, `Replicate`, `Partial(sum)`."""
    if placement.is_shard():
        return f"Shard({placement.dim})"
    if placement.is_replicate():
        return "Replicate"
    if placement.is_partial():
        return f"Partial({placement.reduce_op})"
    return str(placement)


def _beginning(shape: tuple[int, ...], mesh: Any, placements: Any) -> str:
    if all(one.is_replicate() or one.is_partial() for one in placements):
        return ""
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    return f", from {tuple(compute_local_shape_and_global_offset(shape, mesh, placements)[1])}"
