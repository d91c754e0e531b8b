"""The options of torch.compile for TorchAir's mode npugraph_ex: `options={"dump_tensor_data": True}`."""

import copy
from collections.abc import Mapping
from typing import Any

from .config import CompilerConfig

# name -> (option of CompilerConfig, True if it is the opposite)
_OPTIONS = {
    "static_kernel_compile": ("experimental_config.aclgraph._aclnn_static_shape_kernel", False),
    "super_kernel_optimize": ("experimental_config.aclgraph._super_kernel_optimize", False),
    "super_kernel_optimize_options": ("experimental_config.aclgraph._super_kernel_optimize_options", False),
    "super_kernel_debug_options": ("experimental_config.aclgraph._super_kernel_debug_options", False),
    "inplace_pass": ("debug.aclgraph.disable_reinplace_inplaceable_ops_pass", True),
    "input_inplace_pass": ("debug.aclgraph.disable_reinplace_input_mutated_ops_pass", True),
    "remove_noop_ops": ("experimental_config.remove_noop_ops", False),
    "remove_cat_ops": ("debug.aclgraph.remove_cat_ops", False),
    "force_eager": ("debug.run_eagerly", False),
    "pattern_fusion_pass": ("experimental_config.pattern_fusion_pass", False),
    "clone_input": ("debug.aclgraph.clone_input", False),
    "frozen_parameter": ("experimental_config.frozen_parameter", False),
    "post_grad_custom_pre_pass": ("post_grad_custom_pre_pass", False),
    "post_grad_custom_post_pass": ("post_grad_custom_post_pass", False),
    "use_graph_pool": ("aclgraph_config.use_custom_pool", False),
    "reuse_graph_pool_in_same_fx": ("debug.aclgraph.disable_mempool_reuse_in_same_fx", True),
    "capture_limit": ("debug.aclgraph.static_capture_size_limit", False),
    "clone_output": ("debug.aclgraph.enable_output_clone", False),
    "dump_tensor_data": ("dump_config.enable_dump", False),
    "data_dump_stage": ("dump_config.data_dump_stage", False),
    "data_dump_dir": ("dump_config.dump_path", False),
}


def with_options(config: CompilerConfig, options: Mapping[str, Any]) -> CompilerConfig:
    """A copy of `config` with the options of torch.compile. Raises ValueError for others, and as CompilerConfig
    does."""
    if not options:
        return config
    changed = copy.deepcopy(config)
    for name, value in options.items():
        if name not in _OPTIONS:
            raise ValueError(f"Invalid option '{name}', allowed options: {sorted(_OPTIONS)}")
        path, is_opposite = _OPTIONS[name]
        *parts, last = path.split(".")
        part: Any = changed
        for one in parts:
            part = getattr(part, one)
        setattr(part, last, not value if is_opposite and isinstance(value, bool) else value)
    return changed
