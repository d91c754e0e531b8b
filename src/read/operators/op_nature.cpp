#include "read/operators/op_nature.h"

#include <algorithm>

#include "ground/base/text.h"
#include "read/operators/op_attributes.h"
#include "read/operators/op_work.h"

namespace sonde {
namespace {

// Each as bare_type() gives it.
const TypeNames kPlaces = type_names(
    "maskedfill where full fulllike newfull fill fillv2 fills scatter scatterfill indexfill indexput "
    "indexputimpl constantpadnd pad padv3 maskedscatter selectv2 scatternd scatterupdate indexcopy "
    "slicescatter selectscatter constant filllike nantonum");

// Ops that return values from Python.
// `set_`: memory that another process filled, as a worker of a DataLoader does.
const TypeNames kBrings = type_names("liftfresh tensor scalartensor fromnumpy fromfile frombuffer fromdlpack set");

const TypeNames kMoves = type_names(
    "relu view viewas reshape reshapealias transpose t permute flatten unflatten squeeze unsqueeze "
    "expand expandas expanddims clone contiguous detach alias copy select slice stridedslice narrow "
    "split chunk unbind unstack splitwithsizes tensorsplit cat concat concatd stack pack index "
    "indexselect gather gatherd gathernd gatherv2 embedding takealongdim take maskedselect neg abs clamp "
    "clampmin clampmax clipbyvalue maximum minimum max min amax amin maxpool2d maxpool2dwithindices "
    "maxpool1d maxpool3d adaptivemaxpool2d flip roll repeat tile repeatinterleave tril triu diag "
    "diagonal movedim swapaxes unfold asstrided pixelshuffle sort topk threshold thresholdbackward "
    "relugrad identity load depend tuplegetitem maketuple sigmoid tanh hardtanh relu6 softsign sign "
    "floor ceil trunc broadcastto broadcasttensors viewasreal viewascomplex atleast1d getitem "
    "transposeview setitem zeros zeroslike ones oneslike rand randn zero newzeros newones bernoulli "
    "uniform");

const TypeNames kShapeOnly = type_names(
    "oneslike zeroslike emptylike fulllike randlike randnlike newempty newzeros newones newfull "
    "newemptystrided shape size symsize dynamicshape tensorshape rank randintlike isfloatingpoint dim "
    "numel");

const TypeNames kOverwrites = type_names(
    "fill zero copy normal uniform randn random exponential set bernoulli eye arange lognormal cauchy "
    "geometric resize assign fillv2 foreachcopy foreachzero truncnormal");

const TypeNames kTests = type_names(
    "isnan isinf isfinite isposinf isneginf nantonum allfinite npugetfloatstatus checkfornan floatstatus "
    "amptestoverflow");

const TypeNames kFlips = type_names(
    "mul muls neg div realdiv sub rsub matmul mm bmm addmm baddbmm linear pow einsum dot addcmul addcdiv "
    "abs conv2d convolution conv1d conv3d linearlayer multiply divide subtract square matmulv2 "
    "batchmatmul foreachmul foreachneg foreachdiv linalgvectornorm norm negative lerp outer mv addmv "
    "addbmm addr vdot inner kron prod cumprod mseloss l1loss smoothl1loss huberloss cosh truedivide "
    "tensordot hypot cdist dist copysign frobeniusnorm convtranspose1d convtranspose2d convtranspose3d "
    "bilinear");

const TypeNames kSkipsNan = {"nanmean", "nansum", "nanmedian", "nanquantile"};

// These multiply or normalise their inputs, so an infinity comes out as an infinity or NaN and never disappears.
const TypeNames kMixes = type_names(
    "linear dense addmm mm bmm matmul batchmatmul matmulv2 baddbmm addbmm addmv mv dot vdot inner einsum "
    "tensordot outer addr bilinear conv1d conv2d conv3d convolution convtranspose1d convtranspose2d "
    "convtranspose3d layernorm nativelayernorm batchnorm nativebatchnorm groupnorm nativegroupnorm "
    "instancenorm rmsnorm fusedrmsnorm mseloss cosinesimilarity");

// Also `_foreach_…` of them.
const TypeNames kPowers = type_names(
    "norm linalgvectornorm linalgnorm linalgmatrixnorm frobeniusnorm nuclearnorm pow power square mul "
    "multiply muls sum mean nansum nanmean reducesum reducemean cumsum prod cumprod add addcmul addn dot "
    "vdot inner outer mv mm bmm addmm addmv baddbmm matmul linear einsum tensordot var std varmean "
    "stdmean cdist dist pdist mseloss trace lpnorm indexadd scatteradd squaresumall");

const TypeNames kNumbers = {"item", "localscalardense", "equal", "allclose", "isnonzero", "tolist"};

const TypeNames kChecksGradients = {"ampforeachnonfinitecheckandunscale", "ampnonfinitecheckandunscale",
                                    "clearfloatstatus"};

const TypeNames kUnwritten = type_names(
    "empty emptylike newempty emptystrided newemptystrided resize emptypermuted emptyquantized "
    "emptyaffinequantized");

// The running mean and variance are inputs 3 and 4; of batch_norm_update_stats 1 and 2.
const TypeNames kWritesStatistics = {"batchnorm",      "nativebatchnorm", "batchnormimplindex",
                                     "cudnnbatchnorm", "miopenbatchnorm", "instancenorm"};

const TypeNames kCollectives = type_names(
    "allreduce allgather allgatherintotensor allgatherbase allgathercoalesced reducescatter "
    "reducescatterbase reducescattertensor reducescattertensorcoalesced broadcast reduce alltoall "
    "alltoallbase alltoallsingle alltoallv scatter gather send recv recvanysource barrier "
    "allreducecoalesced allgatherintotensorcoalesced isend irecv hcomallreduce hcomallgather "
    "hcombroadcast hcomreducescatter hcomsend hcomreceive receive hcomalltoallv waittensor broadcastv2 "
    "neighborexchange allgatherintotensorout reducescattertensorout batchp2pops monitoredbarrier");

// The number of tensors that an op with `out=` reads; tensors after them are only written.
const TypeNames kOneInput = type_names(
    "abs acos acosh asin asinh atan atanh ceil cos cosh erf erfc erfinv exp exp2 expm1 floor log log10 "
    "log1p log2 logit neg negative reciprocal rsqrt sigmoid sign sgn sin sinh sqrt square tan tanh trunc "
    "sum mean prod cumsum cumprod nansum norm linalgvectornorm logsumexp amax amin std var softmax "
    "logsoftmax tril triu gelu silu softplus logsigmoid hardtanh nantonum frac lgamma digamma");
const TypeNames kTwoInputs = type_names(
    "mul add sub div pow mm bmm matmul maximum minimum fmax fmin multiply divide subtract truedivide "
    "atan2 fmod remainder hypot copysign xlogy dot vdot mv outer inner gather take logaddexp mseloss "
    "floordivide indexselect");
const TypeNames kThreeInputs =
    type_names("addmm baddbmm addbmm addmv addr addcmul addcdiv lerp linear where clamp clip");

// Products that are added to their first input times `beta`.
const TypeNames kAddsTheFirst = type_names("addmm baddbmm addbmm addmv addr");

// Collectives of c10d that take the tensors for their results first, and do not read them.
const TypeNames kFillsFirst = type_names(
    "allgather_ _allgather_base_ allgather_coalesced_ allgather_into_tensor_coalesced_ reduce_scatter_ "
    "_reduce_scatter_base_ reduce_scatter_tensor_coalesced_ alltoall_ alltoall_base_ gather_ scatter_ recv_ "
    "recv_any_source_");

std::string_view after_colons(std::string_view text) {
  const std::size_t at = text.rfind("::");
  return at == std::string_view::npos ? text : text.substr(at + 2);
}

// The second part of `Functional.conv2d.0.forward`, msprobe's form of op names.
std::string_view type_part(std::string_view text) {
  text = after_colons(text);
  const std::size_t first = text.find('.');
  if (first == std::string_view::npos) return text;
  const std::string_view head = text.substr(0, first);
  for (const std::string_view api : {"Torch", "Tensor", "Functional", "Aten", "Distributed", "VF", "NPU", "Mint", "Jit",
                                     "Primitive", "MintFunctional", "Module", "Cell"}) {
    if (head != api) continue;
    const std::string_view rest = text.substr(first + 1);
    return rest.substr(0, rest.find('.'));
  }
  return head;  // an overload: `add.Tensor`
}

std::uint32_t most_inputs_of(std::string_view type) {
  if (kOneInput.contains(type)) return 1;
  if (kTwoInputs.contains(type)) return 2;
  return kThreeInputs.contains(type) ? 3 : ~0U;
}

}  // namespace

std::string bare_type(std::string_view op_type) {
  std::string out;
  for (const char c : type_part(op_type)) {
    if (c != '_') out.push_back(lower(c));
  }
  return out;
}

OpNature nature_of(std::string_view op_type) {
  const std::string type = bare_type(op_type);
  const bool in_place = type_part(op_type).ends_with('_');
  OpNature nature;
  nature.places = kPlaces.contains(type);
  nature.brings = kBrings.contains(type);
  nature.places = nature.places || nature.brings;
  nature.only_moves = kMoves.contains(type);
  nature.shape_only = kShapeOnly.contains(type);
  nature.overwrites = kOverwrites.contains(type) && (in_place || type == "assign");
  nature.tests_finite = kTests.contains(type);
  nature.flips_sign = kFlips.contains(type) || type.find("backward") != std::string::npos ||
                      type.find("grad") != std::string::npos || type.starts_with("foreach");
  nature.gives_number = kNumbers.contains(type);
  nature.gives_tangent = type == "unpackdual";
  nature.checks_gradients = kChecksGradients.contains(type);
  nature.in_place = in_place;
  nature.is_list = type.find("foreach") != std::string::npos;
  nature.uninitialised = kUnwritten.contains(type);
  // `gather` and `scatter` usually pick elements; c10d has ops of the same names, which end in `_` there.
  const bool ambiguous = type == "gather" || type == "scatter" || type == "reduce" || type == "broadcast";
  nature.collective =
      kCollectives.contains(type) &&
      (!ambiguous || (in_place && type != "scatter") || op_type.find("c10d") != std::string_view::npos ||
       op_type.find("Distributed") != std::string_view::npos || op_type == "Broadcast");
  nature.most_inputs = most_inputs_of(type);
  if (kWritesStatistics.contains(type)) nature.first_state = 3;
  if (type == "batchnormupdatestats") nature.first_state = 1;
  nature.mixes = kMixes.contains(type);
  nature.is_power = kPowers.contains(type.starts_with("foreach") ? type.substr(7) : type);
  nature.skips_nan = kSkipsNan.contains(type);
  nature.first_mixed = kAddsTheFirst.contains(type) ? 1 : 0;
  return nature;
}

namespace {

std::uint32_t count_of(const CatalogOp& op, bool inputs) {
  return static_cast<std::uint32_t>(std::ranges::count(op.tensors, inputs, &CatalogTensor::is_input));
}

// The scatter_ of one tensor has an index; that of c10d has the tensors that it sends and receives.
void find_collective(const CatalogOp& op, OpNature& nature) {
  if (nature.collective || op.op_type != "scatter_") return;
  const bool has_index = std::ranges::any_of(op.tensors, [](const CatalogTensor& tensor) {
    return tensor.is_input && tensor.slot == 1 && !is_floating(tensor.dtype) && !is_complex(tensor.dtype);
  });
  if (has_index) return;
  nature.collective = true;
  nature.places = false;
}

}  // namespace

OpNature nature_of(const CatalogOp& op) {
  OpNature nature = nature_of(op.op_type);
  // FSDP2's: the last tensor is the memory for all shards, and it is cut into the others.
  if (op.op_type == "all_gather_copy_in") nature.most_inputs = count_of(op, true) - 1;
  if (op.op_type == "split_with_sizes_copy") nature.most_inputs = 1;
  nature.ignores_first = nature.first_mixed == 1 && number_in(op, "beta") == 0.0;
  find_collective(op, nature);
  if (nature.collective && kFillsFirst.contains(after_colons(op.op_type))) nature.first_input = count_of(op, false);
  return nature;
}

Phase phase_of(const CatalogOp& op) {
  if (op.phase != Phase::forward) return op.phase;
  if (op.op_name.starts_with("Gradients") || op.op_name.starts_with("gradients") ||
      op.op_name.find(".backward") != std::string_view::npos) {
    return Phase::backward;
  }
  if (op.op_name.find("optimizer-") != std::string_view::npos) return Phase::optimizer;
  return op.phase;
}

bool reads_values(const OpNature& nature, const CatalogTensor& input) {
  if (nature.shape_only || nature.uninitialised || input.skipped.reason == NotRead::only_written) return false;
  const bool is_left_out = (nature.overwrites || nature.ignores_first) && input.slot == 0;
  return input.slot >= nature.first_input && input.slot < nature.most_inputs && !is_left_out;
}

bool is_not_finite(const CatalogOp& op, const CatalogTensor& tensor) {
  if (!tensor.statistics || tensor.statistics->all_finite()) return false;
  return !tensor.is_input || reads_values(nature_of(op), tensor);
}

}  // namespace sonde
