// Package nqn checks the NQNs that users type. Those of peers are checked by wire.ValidNQN
// alone, which knows what the standard allows.
package nqn
