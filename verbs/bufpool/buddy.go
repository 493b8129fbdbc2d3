package bufpool

import "math/bits"

// MinBlock is the smallest block in bytes: a page, so that blocks are aligned
// for direct I/O and never share a page.
const MinBlock = 4096

const nowhere = -1

// buddy divides n blocks of MinBlock. Blocks of order o are 1<<o units long and
// start at multiples of that. Free blocks of an order form a doubly linked list
// through next and prev; order[i] is the order of the free block that starts at
// unit i, or nowhere.
type buddy struct {
	maxOrder   int
	head       []int32
	next, prev []int32
	order      []int8
	free       int
}

// newBuddy makes an allocator of units blocks, a multiple of 1<<maxOrder.
func newBuddy(units, maxOrder int) *buddy {
	b := &buddy{
		maxOrder: maxOrder,
		head:     make([]int32, maxOrder+1),
		next:     make([]int32, units),
		prev:     make([]int32, units),
		order:    make([]int8, units),
	}
	for o := range b.head {
		b.head[o] = nowhere
	}
	for i := range b.order {
		b.order[i] = nowhere
	}
	for i := units - 1<<maxOrder; i >= 0; i -= 1 << maxOrder {
		b.push(i, maxOrder)
	}
	b.free = units
	return b
}

// orderFor is the order of the smallest block that holds n bytes.
func orderFor(n int) int {
	if n <= MinBlock {
		return 0
	}
	return bits.Len(uint((n - 1) / MinBlock))
}

func (b *buddy) push(i, o int) {
	b.order[i] = int8(o)
	b.prev[i], b.next[i] = nowhere, b.head[o]
	if h := b.head[o]; h != nowhere {
		b.prev[h] = int32(i)
	}
	b.head[o] = int32(i)
}

func (b *buddy) remove(i, o int) {
	if p := b.prev[i]; p != nowhere {
		b.next[p] = b.next[i]
	} else {
		b.head[o] = b.next[i]
	}
	if n := b.next[i]; n != nowhere {
		b.prev[n] = b.prev[i]
	}
	b.order[i] = nowhere
}

// alloc returns the first unit of a block of the order, or nowhere.
func (b *buddy) alloc(order int) int {
	o := order
	for o <= b.maxOrder && b.head[o] == nowhere {
		o++
	}
	if o > b.maxOrder {
		return nowhere
	}
	i := int(b.head[o])
	b.remove(i, o)
	for o > order { // give the upper halves back
		o--
		b.push(i+1<<o, o)
	}
	b.free -= 1 << order
	return i
}

// release gives a block back and joins it with its free buddies.
func (b *buddy) release(i, order int) {
	b.free += 1 << order
	o := order
	for o < b.maxOrder {
		mate := i ^ 1<<o
		if int(b.order[mate]) != o {
			break
		}
		b.remove(mate, o)
		i &^= 1 << o
		o++
	}
	b.push(i, o)
}
