package ibv

import (
	"errors"
	"fmt"
	"sync/atomic"

	"rbd/verbs"
)

// mr is a memory region. Its keys are what the device gave.
type mr struct {
	mrInfo
	pd     *pd
	base   uint64
	length int
	dereg  atomic.Bool
}

func (m *mr) Addr() uint64 { return m.base }
func (m *mr) Len() int     { return m.length }
func (m *mr) LKey() uint32 { return m.lkey }
func (m *mr) RKey() uint32 { return m.rkey }

func (m *mr) giveUp()  { _ = m.pd.dev.lib.deregMR(m.mr) }
func (*mr) level() int { return levelMR }

func (m *mr) Dereg() error {
	if m.dereg.Swap(true) {
		return fmt.Errorf("deregister memory: %w", verbs.ErrClosed)
	}
	dev := m.pd.dev
	err := dev.with(func() error {
		if err := dev.lib.deregMR(m.mr); err != nil {
			return err
		}
		dev.life.drop(m)
		return nil
	})
	if err != nil && !errors.Is(err, errDeviceRemoved) {
		m.dereg.Store(false)
		return dev.explain("deregister memory", err)
	}
	m.pd.users.Remove()
	return nil
}
