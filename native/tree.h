// Trees that guests have written: counting and removing them. Only ever called in a confined process (crew.c, sweep.c).
#ifndef SANDLOT_TREE_H
#define SANDLOT_TREE_H

#include <stdint.h>

// Gives up everything but the rights over files of other owners and `more`, as far as they are there, below `root` only. -1 = do nothing then.
enum { TREE_CHOWN = 1 << 0, TREE_KILL = 1 << 5 };  // by the numbers of the capabilities
int tree_confine(int root, uint32_t more);
// Removes `name` in `dir` with all below it. -1 with the errno of the first thing that stayed.
int tree_remove(int dir, const char *name);
// How many files an upper has: every entry that is not a directory (files, links, specials and the marks of removed ones), and every directory
// with nothing in it. A directory that replaced another one counts by what is in it. Deeper than 1,000 levels counts as one.
int tree_count(int dir, uint64_t *count);

#endif
