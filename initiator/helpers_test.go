package initiator

import (
	"testing"

	"rbd/verbs/bufpool"
)

// lend borrows a buffer, and returns how to put it back.
func lend(t *testing.T, c *Controller) func() {
	t.Helper()
	var b bufpool.Buf
	if !c.Buffers().TryGet(4096, &b) {
		t.Fatal("no buffer")
	}
	return func() { c.Buffers().Put(&b) }
}
