#ifndef SANDLOT_SWEEP_H
#define SANDLOT_SWEEP_H

// In a forked, confined process: removes what launchers of this state directory left that can no longer do it themselves. `state` is open.
_Noreturn void sweep_run(int state, int boxes);

#endif
