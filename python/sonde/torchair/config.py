"""TorchAir's CompilerConfig: every option with its default and its check."""

from collections.abc import Callable, Mapping
from typing import ClassVar

from .. import session
from .options import (
    Anything,
    Directory,
    ExistingFile,
    Flag,
    Function,
    Integer,
    JsonFile,
    Matching,
    OfType,
    OneOf,
    Option,
    Options,
    RealPath,
)

Parts = Mapping[str, Callable[[], Options]]


class _Dump(Options):
    _options: ClassVar[Mapping[str, Option]] = {"type": OneOf(None, ["txt", "pbtxt", "py"]), "path": RealPath()}


class _DataDump(Options):
    _options: ClassVar[Mapping[str, Option]] = {
        "type": OneOf(None, ["npy"]),
        "filter": Function(),
        "path": RealPath(),
    }


class _FxSummary(Options):
    _options: ClassVar[Mapping[str, Option]] = {"type": OneOf(None, ["csv"]), "skip_compile": Flag(True)}


class _AclGraphDebugConfig(Options):
    _options: ClassVar[Mapping[str, Option]] = {
        "disable_reinplace_inplaceable_ops_pass": Flag(False),
        "disable_reinplace_input_mutated_ops_pass": Flag(False),
        "disable_mempool_reuse_in_same_fx": Flag(False),
        "enable_output_clone": Flag(False),
        "static_capture_size_limit": Integer(64, 1),
        "clone_input": Flag(True),
        "remove_cat_ops": Flag(True),
    }


class _DebugConfig(Options):
    graph_dump: _Dump
    data_dump: _DataDump
    fx_summary: _FxSummary
    _options: ClassVar[Mapping[str, Option]] = {"run_eagerly": Flag(False), "deadlock_check": Flag(False)}
    _parts: ClassVar[Parts] = {
        "graph_dump": _Dump,
        "data_dump": _DataDump,
        "fx_summary": _FxSummary,
        "aclgraph": _AclGraphDebugConfig,
    }


class _AoeConfig(Options):
    _options: ClassVar[Mapping[str, Option]] = {
        "aoe_mode": OneOf(None, ["2"]),
        "work_path": Directory(),
        "aoe_config_file": ExistingFile(),
    }


class _ExportExperimentalConfig(Options):
    _options: ClassVar[Mapping[str, Option]] = {
        "enable_record_nn_module_stack": Flag(False),
        "auto_atc_config_generated": Flag(False),
        "enable_lite_export": Flag(False),
    }


class _ExportConfig(Options):
    _options: ClassVar[Mapping[str, Option]] = {
        "export_mode": Flag(False),
        "export_path_dir": Directory(),
        "export_name": Anything(),
        "weight_name": Anything(),
        "inputs_name": Anything(),
    }
    _parts: ClassVar[Parts] = {"experimental": _ExportExperimentalConfig}


class _DataDumpConfig(Options):
    _options: ClassVar[Mapping[str, Option]] = {
        "enable_dump": OneOf(False, [False, True]),
        "dump_path": Directory(),
        "dump_mode": OneOf("all", ["input", "output", "all"]),
        "quant_dumpable": OneOf(False, [False, True]),
        "dump_step": Matching(r"^(((\d+)|(\d+-{0,1}\d+))\|{0,1})*$", "0|1|2-5|6"),
        # TorchAir's expression, and `-`, which Sonde's names of operators contain.
        "dump_layer": Matching(r'^[0-9a-zA-Z_" "/\\.-]*$', "Mul_1 Add1 Conv2D_1"),
        "dump_data": OneOf("tensor", ["tensor", "stats"]),
        "dump_config_path": JsonFile(),
        "data_dump_stage": OneOf("optimized", ["original", "optimized"]),
    }


class _FusionConfig(Options):
    _options: ClassVar[Mapping[str, Option]] = {"fusion_switch_file": ExistingFile()}


class _AclGraphExperimentalConfig(Options):
    _options: ClassVar[Mapping[str, Option]] = {
        "_aclnn_static_shape_kernel": Flag(False),
        "_aclnn_static_shape_kernel_build_dir": OfType(str, name="str"),
        "_aclnn_static_shape_kernel_sym_value_range": OfType(list, tuple, name="list"),
        "_aclnn_static_shape_kernel_sym_index": Integer(0, 0),
        "_super_kernel_optimize": Flag(False),
        "_super_kernel_optimize_options": OfType(dict, name="dict"),
        "_super_kernel_debug_options": OfType(dict, name="dict"),
    }


class _ExperimentalConfig(Options):
    _options: ClassVar[Mapping[str, Option]] = {
        "cc_parallel_enable": OneOf(False, [False, True]),
        "keep_inference_input_mutations": Flag(True),
        "memory_efficiency": Flag(False),
        "frozen_parameter": Flag(False),
        "static_model_ops_lower_limit": Integer(None, -1),
        "jit_compile": OneOf("auto", ["auto"]),
        "npu_fx_pass": Flag(False),
        "aot_config_enable_joint_graph": Flag(False),
        "aot_config_output_loss_index": Anything(0),
        "topology_sorting_strategy": OneOf("DFS", ["BFS", "DFS", "RDFS", "StableRDFS"]),
        "enable_ref_data": Flag(False),
        "enable_view_optimize": Flag(True),
        "remove_noop_ops": Flag(True),
        "tiling_schedule_optimize": Flag(False),
        "pattern_fusion_pass": Flag(True),
    }
    _parts: ClassVar[Parts] = {"aclgraph": _AclGraphExperimentalConfig}


class _InferenceConfig(Options):
    _options: ClassVar[Mapping[str, Option]] = {"dynamic_gears_merge_policy": OneOf("zip", ["zip", "product"])}


class _GEConfig(Options):
    _options: ClassVar[Mapping[str, Option]] = {
        "enable_single_stream": Flag(False),
        "oo_level": OneOf("O3", ["O1", "O3"]),
        "oo_constant_folding": OneOf(None, [True, False]),
        "oo_dead_code_elimination": OneOf(None, [True, False]),
        "export_compile_stat": OneOf("2", ["0", "1", "2"]),
        "aicore_num": Anything(),
        "optimization_switch": Anything(),
    }


class _AclGraphConfig(Options):
    _options: ClassVar[Mapping[str, Option]] = {"use_custom_pool": Anything()}


class _NpuGraphExConfig(Options):
    _options: ClassVar[Mapping[str, Option]] = {
        "force_eager": Anything(False),
        "use_graph_pool": Anything(),
        "reuse_graph_pool_in_same_fx": Anything(True),
        "capture_limit": Anything(64),
        "clone_input": Anything(True),
        "clone_output": Anything(False),
        "static_kernel_compile": Anything(False),
        "super_kernel_optimize": Anything(False),
        "super_kernel_optimize_options": Anything(),
        "super_kernel_debug_options": Anything(),
        "frozen_parameter": Anything(False),
        "remove_noop_ops": Anything(True),
        "remove_cat_ops": Anything(True),
        "inplace_pass": Anything(True),
        "input_inplace_pass": Anything(True),
        "pattern_fusion_pass": Anything(True),
        "post_grad_custom_pre_pass": Anything(),
        "post_grad_custom_post_pass": Anything(),
        "dump_tensor_data": Anything(False),
        "data_dump_stage": Anything("optimized"),
        "data_dump_dir": Anything("./"),
    }


class AotConfig(Options):
    """The argument `aot_config` of older releases; later ones have it in `experimental_config`."""

    _options: ClassVar[Mapping[str, Option]] = {"enable_joint_graph": Flag(False), "output_loss_index": Anything(0)}


class CompilerConfig(Options):
    """TorchAir's CompilerConfig."""

    mode: str
    debug: _DebugConfig
    dump_config: _DataDumpConfig
    _options: ClassVar[Mapping[str, Option]] = {
        "mode": OneOf("max-autotune", ["max-autotune", "reduce-overhead", "npugraph_ex"]),
        "post_grad_custom_pre_pass": Function(),
        "post_grad_custom_post_pass": Function(),
    }
    _parts: ClassVar[Parts] = {
        "debug": _DebugConfig,
        "aoe_config": _AoeConfig,
        "export": _ExportConfig,
        "dump_config": _DataDumpConfig,
        "fusion_config": _FusionConfig,
        "experimental_config": _ExperimentalConfig,
        "inference_config": _InferenceConfig,
        "ge_config": _GEConfig,
        "aclgraph_config": _AclGraphConfig,
        "npugraphex_config": _NpuGraphExConfig,
    }

    def configuration(self) -> session.Settings:
        """The same as a configuration for sonde.start(): only the options that were set."""
        return {"dump_config": dict(self.dump_config.given)}

    def start(self) -> None:
        """Start recording. Raises Error as sonde.start() does."""
        session.start(self)

    def reasons_to_interpret(self) -> list[str]:
        """The options because of which graphs run node by node; empty if Inductor compiles them."""
        debug = self.debug
        reasons = {
            "debug.data_dump": debug.data_dump.type is not None,
            "debug.run_eagerly": debug.run_eagerly,
            "debug.fx_summary": debug.fx_summary.type is not None and debug.fx_summary.skip_compile,
            f"mode {self.mode} with enable_dump": self.saves_tensors(),
        }
        return [name for name, is_set in reasons.items() if is_set]

    def saves_tensors(self) -> bool:
        """Whether each node's tensor becomes a .pt file: the modes that capture graphs."""
        return self.mode != "max-autotune" and bool(self.dump_config.enable_dump)
