// Linked into the sanitizer build only: the launcher starts itself anew with an empty environment, so options cannot come from there.
// Leaks are not looked for: every process of ours ends by _exit or by a signal, and the kernel takes back what it had.
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "detect_leaks=0:abort_on_error=1:handle_segv=0:allocator_may_return_null=1"; }
const char *__ubsan_default_options(void);
const char *__ubsan_default_options(void) { return "halt_on_error=1:print_stacktrace=1"; }
