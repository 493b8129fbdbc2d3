// Command bench compares disks over an NBD socket, side by side in one run: ours
// (initiator and target, two hops, RAM export), nbdkit's memory plugin behind its
// nbd plugin (two hops, in C), and nbdkit's memory plugin over TCP (one hop).
//
//  1. All servers start and stay for the whole run; idle ones use no CPU.
//  2. Each workload runs on the contestants in turn, for several rounds, so that a
//     slow moment of the machine hits all of them.
//  3. The table gives medians and the ratios to both opponents.
//
// After that it compares the software provider alone with plain TCP in Go.
//
// -floor makes the command fail when a ratio is below the floor of its row.
package main
