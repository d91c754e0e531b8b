/* A network of two layers, trained with kernels of its own and recorded by Sonde: operators, values, graph. Only the
 * second layer learns.
 *
 *   cc -std=c99 examples/c/mlp.c $(pkg-config --cflags --libs sonde) -lm -o mlp
 *   sonde run --out /data/mlp --saved-data full -- ./mlp          or: SONDE_CONFIG=$PWD/data_dump.json ./mlp
 *
 * Without a configuration it trains and records nothing. `./mlp --plant` makes a mistake in step 2. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sonde/sonde.h"

/* --- the program's own tensors ------------------------------------------------------------------------------------ */

enum { kBatch = 4, kIn = 3, kHidden = 8 };

struct matrix {
  float* data;
  int64_t shape[2];
  uint64_t id; /* another number for every matrix, never used again */
};

static struct matrix matrix(int64_t rows, int64_t columns) {
  static uint64_t next = 1;
  struct matrix m = {calloc((size_t)(rows * columns), sizeof(float)), {rows, columns}, next++};
  if (m.data == NULL) exit(1);
  return m;
}

static float* at(const struct matrix* m, int64_t row, int64_t column) { return m->data + row * m->shape[1] + column; }

/* --- everything that the program does for Sonde ------------------------------------------------------------------- */

static const struct sonde_api* sonde;

static struct sonde_tensor tensor(const struct matrix* m) {
  struct sonde_tensor t = {.size = sizeof t, .dtype = SONDE_DTYPE_FLOAT32, .data = m->data, .shape = m->shape};
  t.ndim = 2;
  t.storage = m->id; /* joins the operator that writes a matrix and those that read it */
  return t;
}

/* The places in the program that run an operator, each with its number in Sonde, which is not 0. */
enum { kUp, kTanh, kPlant, kDown, kLoss, kDownGrad, kSgd, kSites };
static uint32_t sites[kSites];

/* An operator begins; null: it is not recorded. `forward`: of an operator of backward, the site of its forward one. */
static struct sonde_op* begin(int site, const char* type, const char* scope, uint32_t phase, int forward, int line) {
  struct sonde_source_line trace = {.line = (uint32_t)line, .file = __FILE__, .function = "main"};
  struct sonde_site place = {.size = sizeof place, .phase = phase, .op_type = type, .scope = scope};
  struct sonde_op* op = NULL;
  place.forward_site = phase == SONDE_PHASE_BACKWARD ? sites[forward] : 0;
  place.trace = &trace;
  place.trace_count = 1;
  if (sites[site] == 0) sites[site] = sonde->site(&place);
  return sonde->op_begin(sites[site], SONDE_GRAPH_TRAINING, 0, &op) != 0 ? op : NULL;
}

/* It has ended: `out` was computed from `a` and `b`, which may be null. */
static void end(struct sonde_op* op, const struct matrix* a, const struct matrix* b, const struct matrix* out) {
  struct sonde_tensor x = tensor(a), y = tensor(b != NULL ? b : a), z = tensor(out);
  if (op == NULL) return;
  sonde->op_mutated(op, out->id);
  if (a != out) sonde->op_input(op, 0, &x);
  if (b != NULL) sonde->op_input(op, 1, &y);
  sonde->op_output(op, 0, &z);
  sonde->op_end(op, 0);
}

/* An operator that overwrites `a` shows it before. */
static void before(struct sonde_op* op, const struct matrix* a) {
  struct sonde_tensor x = tensor(a);
  if (op != NULL) sonde->op_input_before(op, 0, &x);
}

/* `call` is recorded as an operator in this line. */
#define RECORD(site, type, scope, phase, forward, call, a, b, out)            \
  do {                                                                        \
    struct sonde_op* op = begin(site, type, scope, phase, forward, __LINE__); \
    if ((a) == (out)) before(op, a);                                          \
    call;                                                                     \
    end(op, a, b, out);                                                       \
  } while (0)
#define FORWARD(site, type, scope, call, a, b, out) RECORD(site, type, scope, SONDE_PHASE_FORWARD, 0, call, a, b, out)
#define BACKWARD(site, type, of, call, a, b, out) RECORD(site, type, "", SONDE_PHASE_BACKWARD, of, call, a, b, out)
#define OPTIMIZER(site, type, scope, call, a, b, out) \
  RECORD(site, type, scope, SONDE_PHASE_OPTIMIZER, 0, call, a, b, out)

/* --- the program's own kernels ------------------------------------------------------------------------------------ */

static void matmul(const struct matrix* a, const struct matrix* b, struct matrix* out) {
  for (int64_t i = 0; i < out->shape[0]; ++i)
    for (int64_t j = 0; j < out->shape[1]; ++j) {
      *at(out, i, j) = 0;
      for (int64_t k = 0; k < a->shape[1]; ++k) *at(out, i, j) += *at(a, i, k) * *at(b, k, j);
    }
}

static void tanh_of(const struct matrix* a, struct matrix* out) {
  for (int64_t i = 0; i < a->shape[0] * a->shape[1]; ++i) out->data[i] = tanhf(a->data[i]);
}

static void log_of(struct matrix* a) {
  for (int64_t i = 0; i < a->shape[0] * a->shape[1]; ++i) a->data[i] = logf(a->data[i]);
}

/* The gradient of the mean square of a - b with respect to a. */
static void difference(const struct matrix* a, const struct matrix* b, struct matrix* out) {
  const int64_t elements = a->shape[0] * a->shape[1];
  for (int64_t i = 0; i < elements; ++i) out->data[i] = 2 * (a->data[i] - b->data[i]) / (float)elements;
}

/* a, transposed, times b. */
static void matmul_transposed(const struct matrix* a, const struct matrix* b, struct matrix* out) {
  for (int64_t i = 0; i < out->shape[0]; ++i)
    for (int64_t j = 0; j < out->shape[1]; ++j) {
      *at(out, i, j) = 0;
      for (int64_t k = 0; k < a->shape[0]; ++k) *at(out, i, j) += *at(a, k, i) * *at(b, k, j);
    }
}

static void step(struct matrix* weight, const struct matrix* gradient) {
  for (int64_t i = 0; i < weight->shape[0] * weight->shape[1]; ++i) weight->data[i] -= 0.1F * gradient->data[i];
}

/* --- the training ------------------------------------------------------------------------------------------------- */

int main(int argc, char** argv) {
  const int plant = argc > 1 && strcmp(argv[1], "--plant") == 0;
  char message[4096];
  struct matrix x = matrix(kBatch, kIn), target = matrix(kBatch, 1), up = matrix(kIn, kHidden);
  struct matrix down = matrix(kHidden, 1), hidden = matrix(kBatch, kHidden), active = matrix(kBatch, kHidden);
  struct matrix y = matrix(kBatch, 1), dy = matrix(kBatch, 1), ddown = matrix(kHidden, 1);
  struct sonde_tensor up_tensor = tensor(&up), down_tensor = tensor(&down);

  sonde = sonde_api(SONDE_API_VERSION);
  if (sonde == NULL) {
    fprintf(stderr, "%s\n", sonde_api_mismatch(SONDE_API_VERSION, sizeof(struct sonde_api)));
    return 1;
  }
  if (sonde->start(NULL, message, sizeof message) < 0) fprintf(stderr, "%s", message);

  for (int i = 0; i < kIn * kHidden; ++i) up.data[i] = sinf((float)i);
  for (int i = 0; i < kHidden; ++i) down.data[i] = cosf((float)i);
  for (int i = 0; i < kBatch; ++i) target.data[i] = (float)i / kBatch;
  for (int number = 0; number < 4; ++number) {
    sonde->root_forward(1, 1, 1); /* a step of the training begins */
    sonde->name_tensor("up.weight", &up_tensor);
    sonde->name_tensor("down.weight", &down_tensor);
    for (int i = 0; i < kBatch * kIn; ++i) x.data[i] = sinf((float)(i * i));
    sonde->storage_changed(x.id); /* new data, written by no operator */
    FORWARD(kUp, "matmul", "network-Mlp/up-Linear", matmul(&x, &up, &hidden), &x, &up, &hidden);
    FORWARD(kTanh, "tanh", "network-Mlp", tanh_of(&hidden, &active), &hidden, NULL, &active);
    if (plant && number == 2) FORWARD(kPlant, "log", "network-Mlp", log_of(&active), &active, NULL, &active);
    FORWARD(kDown, "matmul", "network-Mlp/down-Linear", matmul(&active, &down, &y), &active, &down, &y);
    FORWARD(kLoss, "error", "network-Mlp", difference(&y, &target, &dy), &y, &target, &dy);
    BACKWARD(kDownGrad, "matmul_grad", kDown, matmul_transposed(&active, &dy, &ddown), &active, &dy, &ddown);
    OPTIMIZER(kSgd, "sgd", "optimizer-SGD", step(&down, &ddown), &down, &ddown, &down);
    sonde->optimizer_end(); /* the next forward begins the next step */
    printf("step %d: y[0] %.4f\n", number, y.data[0]);
  }

  if (sonde->take_failure(message, sizeof message)) fprintf(stderr, "%s\n", message);
  sonde->stop(message, sizeof message); /* without a session this and all calls above do nothing */
  if (message[0] != '\0') fprintf(stderr, "%s\n", message);
  return 0;
}
