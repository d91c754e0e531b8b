/* A host in C: one step of one operator, recorded as the configuration says. HEADER: the sonde.h that it is built with.
 *
 *   host CONFIG    0: recorded, the closing line is printed; 2: the library does not fit; 3: the engine has refused
 */
#include HEADER

#include <stdio.h>
#include <string.h>

#if SONDE_API_VERSION == 1u
#define op_mutated op_wrote
static const char* why_not(void) { return "of another version"; } /* all that version 1 says */
#else
static const char* why_not(void) { return sonde_api_mismatch(SONDE_API_VERSION, sizeof(struct sonde_api)); }
#endif

static char text[4096];

static struct sonde_tensor tensor(const float* values, const int64_t* shape) {
  struct sonde_tensor t;
  memset(&t, 0, sizeof t);
  t.size = sizeof t;
  t.dtype = 11; /* SONDE_DTYPE_FLOAT32, which version 1 cannot name */
  t.data = values;
  t.shape = shape;
  t.ndim = 2;
  return t; /* without strides: C order */
}

static void run_op(const struct sonde_api* api) {
  static const float in[6] = {1, 2, 3, 4, 5, 6}, out[6] = {2, 4, 6, 8, 10, 12};
  static const int64_t shape[2] = {2, 3};
  const struct sonde_tensor input = tensor(in, shape), output = tensor(out, shape);
  struct sonde_site site;
  struct sonde_op* op = NULL;
  memset(&site, 0, sizeof site);
  site.size = sizeof site;
  site.op_type = "mul";
  if (api->op_begin(api->site(&site), SONDE_GRAPH_TRAINING, 0, &op) == 0) return;
  api->op_mutated(op, 0);
  api->op_input(op, 0, &input);
  api->op_output(op, 0, &output);
  api->op_end(op, 0);
}

int main(int argc, char** argv) {
  struct sonde_run_info info;
  const struct sonde_api* api = sonde_api(SONDE_API_VERSION);
  if (api == NULL || argc != 2) {
    fprintf(stderr, "%s\n", why_not());
    return 2;
  }
  if (api->start(argv[1], text, sizeof text) != 0) {
    fprintf(stderr, "%s\n", text);
    return 3;
  }
  memset(&info, 0, sizeof info);
  info.size = sizeof info;
  info.rank = 5;
  api->set_run_info(&info);
  api->root_forward(1, 1, 0);
  run_op(api);
  if (api->take_failure(text, sizeof text)) fprintf(stderr, "%s\n", text);
  api->stop(text, sizeof text);
  printf("%s\n%s\n", api->engine, text);
  return 0;
}
