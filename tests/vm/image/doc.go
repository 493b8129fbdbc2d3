// Package image prepares what a virtual machine of the whole-system tests boots: a
// stock Debian kernel with its modules, the module siw built from Debian's own
// source of the same kernel, and an initial RAM disk. The guest has no disk of its
// own: its root is the host's / , read-only, under a writable overlay.
//
// The kernel and its modules are kept in the user's cache folder,
// rbd-vm/VERSION-RECIPE, where RECIPE is a hash of the source text that makes them;
// they are made again when missing, when the machine's apt knows a newer kernel, or
// when the recipe changed. That needs apt, a compiler and make, but no root's
// rights: packages are downloaded and unpacked, never installed. The RAM disk is
// made anew for every run, which takes a second.
package image
