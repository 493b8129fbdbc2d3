package target

import (
	"sync"

	"rbd/verbs/bufpool"
)

// accounts are a controller's accounts with the buffer pools of the devices that its
// queues are on, one for each namespace.
type accounts struct {
	mu sync.Mutex
	of map[accountKey]*bufpool.Account
}

type accountKey struct {
	pool *bufpool.Pool
	nsid uint32
}

// get finds or makes an account.
func (a *accounts) get(pool *bufpool.Pool, nsid uint32) *bufpool.Account {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := accountKey{pool, nsid}
	if a.of[key] == nil {
		if a.of == nil {
			a.of = make(map[accountKey]*bufpool.Account)
		}
		a.of[key] = pool.Account()
	}
	return a.of[key]
}
