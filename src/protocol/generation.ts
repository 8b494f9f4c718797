// The one version number of what crosses a wire: frames of the guest protocol and event streams alike.
// Each side names its own, the lower one is spoken.
export const GENERATION = 1
