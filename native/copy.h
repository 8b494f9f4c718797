#ifndef SANDLOT_COPY_H
#define SANDLOT_COPY_H

#include <stdint.h>

#include "init.h"

#define COPY_FILES 20000
#define COPY_BYTES (256ull << 20)
#define COPY_LEVELS 100

// As IDS_OWNER says for a layer: the source's owner and 1000 change places, everyone else by number.
struct owners {
  uint32_t base, uid, gid;
};

// Copies what is in directory `from` into the empty directory `to`, by a child that can do nothing else. NULL, or what went wrong, with errno;
// E2BIG: more than COPY_FILES, COPY_BYTES or COPY_LEVELS.
const char *copy_layer(int from, int to, const struct owners *owners);

#endif
