package bufpool

import (
	"errors"
	"fmt"

	"rbd/verbs"
)

// Keys are the keys of the pool's memory as it is registered now; they hold for
// every block.
func (p *Pool) Keys() (lkey, rkey uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mr.LKey(), p.mr.RKey()
}

// Move registers the memory of pools on another protection domain, maybe of another
// device, and returns the regions of before, which are the caller's to deregister.
// Blocks on loan keep their place and their data, but no connection may use them
// meanwhile. Either all pools move, or none and there is an error.
func Move(pd verbs.PD, pools ...*Pool) (before []verbs.MR, err error) {
	var moved []verbs.MR
	for _, p := range pools {
		mr, err := pd.RegMR(p.mem, p.access)
		if err != nil {
			err = fmt.Errorf("register a buffer pool of %d bytes anew: %w", len(p.mem), err)
			for _, mr := range moved {
				err = errors.Join(err, mr.Dereg())
			}
			return nil, err
		}
		moved = append(moved, mr)
	}
	for i, p := range pools {
		p.mu.Lock()
		before = append(before, p.mr)
		p.mr = moved[i]
		p.mu.Unlock()
	}
	return before, nil
}
