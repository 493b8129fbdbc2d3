// Package object has what the objects of every provider have: an account of those that
// depend on them, and the event of a completion queue. Its types are safe for
// concurrent use.
package object
