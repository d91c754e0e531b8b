#include "read/operators/op_family.h"

#include <algorithm>
#include <iterator>

#include "ground/base/text.h"
#include "plan/config/op_types.h"

namespace sonde {
namespace {

struct KindNames {
  OpKind kind;
  std::string_view names;  // as shared_type() gives them, separated by one space; each once
};

// Gradients have entries of their own; a gradient without one has the kind of its op (kind_of).
// tests/python/test_op_kinds.py calls the operator of each name.
constexpr KindNames kKindNames[] = {
    {OpKind::copy,
     "t view detach alias transpose permute expand expanddims clone liftfresh reshape flatten contiguous "
     "unsqueeze squeeze slice select split splitwithsizes tensorsplit chunk cat concat concatenate stack hstack "
     "vstack pad padv3 constantpadnd repeat tile unbind narrow gather indexselect embedding index copy flip "
     "roll asstrided unfold movedim swapaxes broadcastto viewas reshapealias unsafeview transposed stridedslice "
     "flattengrad fill full zeros ones zeroslike oneslike arange identity load depend tensormove reshapeas "
     "squeezed pack unpack stackgrad slicegrad selectgrad catgrad arangestart scalartensor tril triu "
     "maskedselect expandas repeatinterleave gatherv2 gathernd real imag viewasreal viewascomplex newzeros "
     "newfull emptylike empty newempty waittensor wraptensorautograd "
     "unflatten ravel moveaxis swapdims adjoint mt mh matrixh numpyt diag diagonal hsplit vsplit dsplit columnstack "
     "dstack rowstack im2col pixelshuffle pixelunshuffle channelshuffle rot90 fliplr flipud take takealongdim "
     "unsafesplit unsafechunk viewcopy expandcopy"},
    {OpKind::exact,
     "relu relu6 neg foreachneg abs conj hardtanh clamp clampmin clampmax maxpool2d maxpool1d maxpool3d "
     "maxpool2dwithindices "
     "maxpool maximum minimum max min amax amin where maskedfill clip clipbyvalue"},
    {OpKind::cast, "cast to tocopy typeas transdata float half bfloat16 double"},
    {OpKind::transcendental,
     "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh sigmoid silu swish gelu "
     "fastgelu erf erfc erfinv softplus mish pow elu selu celu hardswish logsigmoid tanhgrad sigmoidgrad silugrad "
     "gelugrad logit lgamma digamma"},
    {OpKind::contraction,
     "linear addmm mm matmul bmm baddbmm mv addmv dot einsum tensordot conv1d conv2d conv3d convolution "
     "convtranspose1d convtranspose2d convtranspose3d convolutiongrad conv2dbackpropinput conv2dbackpropfilter "
     "conv3dbackpropinput "
     "conv3dbackpropfilter scaleddotproductattention scaleddotproductflashattention "
     "scaleddotproductflashattentionforcpu scaleddotproductflashattentionforcpugrad scaleddotproductefficientattention "
     "scaleddotproductattentionmath scaleddotproductfusedattentionoverrideable lstm gru rnntanh rnnrelu bilinear "
     "flashattentionscore flashattentionscoregrad multiheadattention transformerencoderlayerfwd depthwiseconv2d "
     "addmmactivation lineargrad grucell lstmcell rnntanhcell rnnrelucell inner vdot addbmm multidot linalgmultidot"},
    {OpKind::reduction,
     "sum mean prod std var stdmean varmean norm linalgvectornorm cumsum cumprod logsumexp avgpool2d avgpool1d "
     "avgpool3d adaptiveavgpool2d adaptiveavgpool1d biasaddgrad addn trace mseloss l1loss nllloss nlllossnd "
     "nlllossforward crossentropyloss crossentropy binarycrossentropy binarycrossentropywithlogits smoothl1loss "
     "huberloss kldiv embeddingdensegrad scatteradd indexadd unsortedsegmentsum foreachnorm "
     "sparsesoftmaxcrossentropywithlogits "
     "softmaxcrossentropywithlogits ctcloss clipgradnorm squaresumall bntrainingreduce nansum nanmean embeddingbag "
     "cdist logcumsumexp diff"},
    {OpKind::normalization,
     "batchnorm batchnormimplindex batchnormlegit cudnnbatchnorm layernorm groupnorm instancenorm rmsnorm fusedrmsnorm "
     "softmax logsoftmax softmaxgraddata logsoftmaxgraddata l2normalize localresponsenorm safesoftmax normalize "
     "fusedbatchnorm bntrainingupdate"},
    {OpKind::selection,
     "eq ne lt le gt ge equal greater greaterequal less lessequal notequal argmax argmin topk sort argsort round floor "
     "ceil sign sgn trunc thresholdgrad relugrad relu6grad hardtanhgrad maxpool2dwithindicesgrad maxpoolgrad "
     "maxpoolgradwithargmax nonzero argwhere onehot unique unique2 uniquedim uniqueconsecutive bucketize isnan isinf "
     "isfinite floordivide remainder fmod signbit "
     "leakyrelugrad elugrad logicalnot logicaland logicalor searchsorted argmaxwithvalue mode median kthvalue "
     "quantize quantizepertensor dequantize fakequantize ascendquant bincount histc absgrad"},
    {OpKind::random,
     "dropout alphadropout featuredropout rand randn randint randlike randnlike randintlike randperm "
     "bernoulli normal uniform exponential dropoutgenmask standardnormal uniformreal rrelu poisson geometric cauchy "
     "multinomial"},
    {OpKind::elementwise,
     "add sub mul div addcmul addcdiv lerp reciprocal rsqrt sqrt square leakyrelu prelu rsub truedivide divide "
     "multiply subtract biasadd realdiv tensoradd hardsigmoid muls adds outer addr foreachadd foreachmul "
     "foreachaddcdiv "
     "foreachaddcmul foreachlerp foreachsqrt foreachdiv foreachsub"},
};

std::unordered_map<std::string_view, OpKind> make_kinds() {
  std::unordered_map<std::string_view, OpKind> kinds;
  for (const auto& [kind, names] : kKindNames) {
    for (const std::string_view name : split(names, ' ')) kinds.try_emplace(name, kind);
  }
  return kinds;
}

bool find_kind(const std::string& plain, OpKind& kind) {
  static const std::unordered_map<std::string_view, OpKind> kKnown = make_kinds();
  const auto found = kKnown.find(plain);
  if (found != kKnown.end()) kind = found->second;
  return found != kKnown.end();
}

}  // namespace

std::string_view word_of(OpKind kind) {
  constexpr std::string_view kWords[] = {"copy",           "exact",       "cast",       "elementwise",
                                         "transcendental", "contraction", "reduction",  "normalization",
                                         "selection",      "random",      "collective", "other"};
  return kWords[static_cast<std::size_t>(kind)];
}

std::string shared_type(std::string_view op_type) {
  if (op_type.starts_with("aten::")) op_type.remove_prefix(6);
  std::string plain;
  for (const char c : op_type) {
    if (c != '_') plain.push_back(lower(c));
  }
  if (plain.starts_with("native")) plain.erase(0, 6);
  if (const std::size_t at = plain.find("backward"); at != std::string::npos) plain.replace(at, 8, "grad");
  return plain;
}

OpKind kind_of(std::string_view op_type) {
  if (is_collective(op_type)) return OpKind::collective;
  const std::string plain = shared_type(op_type);
  OpKind kind = OpKind::other;
  if (find_kind(plain, kind)) return kind;
  for (const std::string_view aten : aten_names(op_type)) {
    if (find_kind(shared_type(aten), kind)) return kind;
  }
  if (const std::size_t grad = plain.find("grad"); grad != std::string::npos && grad > 0) {
    if (find_kind(plain.substr(0, grad), kind)) return kind <= OpKind::exact ? OpKind::reduction : kind;
  }
  return OpKind::other;
}

bool shape_follows_values(std::string_view op_type) {
  constexpr std::string_view kNames[] = {"nonzero",           "argwhere",     "unique", "unique2",          "uniquedim",
                                         "uniqueconsecutive", "maskedselect", "index",  "repeatinterleave", "bincount"};
  return std::ranges::find(kNames, shared_type(op_type)) != std::end(kNames);
}

std::uint32_t OpFamilies::number_of(const std::string& plain) {
  return numbers_.try_emplace(plain, static_cast<std::uint32_t>(numbers_.size())).first->second;
}

const OpFamilies::Family& OpFamilies::of(std::string_view op_type) {
  const auto [at, is_new] = families_.try_emplace(std::string(op_type));
  if (!is_new) return at->second;
  Family& family = at->second;
  const std::string plain = shared_type(op_type);
  family.push_back(number_of(plain));
  // In the table BiasAdd may be a part of `linear`; as an op of its own it is an addition.
  if (plain == "biasadd") {
    family.push_back(number_of("add"));
  } else {
    for (const std::string_view aten : aten_names(op_type)) family.push_back(number_of(shared_type(aten)));
  }
  std::ranges::sort(family);
  family.erase(std::unique(family.begin(), family.end()), family.end());
  return family;
}

bool OpFamilies::same(const Family& a, const Family& b) {
  for (auto x = a.begin(), y = b.begin(); x != a.end() && y != b.end();) {
    if (*x == *y) return true;
    ++(*x < *y ? x : y);
  }
  return false;
}

}  // namespace sonde
