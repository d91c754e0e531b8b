/* Where the fields of struct sonde_run_info lie, for its mirror in ctypes. */
#include <stdio.h>

#include "sonde/sonde.h"

int main(void) {
  printf("size %zu\nrank %zu\ndevice %zu\nhost %zu\ncommand %zu\nworld_size %zu\n",
         offsetof(struct sonde_run_info, size), offsetof(struct sonde_run_info, rank),
         offsetof(struct sonde_run_info, device), offsetof(struct sonde_run_info, host),
         offsetof(struct sonde_run_info, command), offsetof(struct sonde_run_info, world_size));
  printf("total %zu\n", sizeof(struct sonde_run_info));
  return 0;
}
