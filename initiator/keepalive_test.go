package initiator

import (
	"testing"
	"time"
)

// Protects the keep-alive rules: when a command is sent, when traffic stands for
// it, and when the controller is given up.
func TestKeepAlive(t *testing.T) {
	start := time.Unix(1000, 0)
	type event struct {
		at       time.Duration // since the start
		sent     uint64
		answers  uint64
		answered bool // the answer to a Keep Alive comes just before
		want     keepAliveAction
		wait     time.Duration
	}
	const kato = 4 * time.Second
	for _, tc := range []struct {
		name    string
		kato    time.Duration
		traffic bool
		events  []event
	}{
		{"off", 0, false, []event{{at: time.Hour, want: keepAliveWait, wait: forever}}},
		{"every half of the timeout", kato, false, []event{
			{at: time.Second, answers: 5, want: keepAliveWait, wait: time.Second},
			{at: 2 * time.Second, answers: 9, want: keepAliveSend, wait: kato},
			{at: 3 * time.Second, answers: 9, want: keepAliveWait, wait: 3 * time.Second},
			{at: 3500 * time.Millisecond, answers: 10, answered: true, want: keepAliveWait, wait: 500 * time.Millisecond},
			{at: 4 * time.Second, answers: 10, want: keepAliveSend, wait: kato},
		}},
		{"not answered", kato, false, []event{
			{at: 2 * time.Second, want: keepAliveSend, wait: kato},
			{at: 5999 * time.Millisecond, answers: 100, want: keepAliveWait, wait: time.Millisecond},
			{at: 6 * time.Second, answers: 100, want: keepAliveExpired},
		}},
		{"traffic stands for it", kato, true, []event{
			{at: time.Second, sent: 1, answers: 1, want: keepAliveWait, wait: time.Second},
			{at: 2 * time.Second, sent: 2, answers: 2, want: keepAliveWait, wait: time.Second},
			{at: 3 * time.Second, sent: 2, answers: 2, want: keepAliveSend, wait: kato},
			{at: 3100 * time.Millisecond, sent: 3, answers: 3, answered: true, want: keepAliveWait, wait: 900 * time.Millisecond},
			{at: 4 * time.Second, sent: 3, answers: 3, want: keepAliveSend, wait: kato},
		}},
		{"answers to old commands don't", kato, true, []event{
			{at: time.Second, sent: 9, answers: 1, want: keepAliveWait, wait: time.Second},
			{at: 2 * time.Second, sent: 9, answers: 2, want: keepAliveSend, wait: kato},
			{at: 2500 * time.Millisecond, sent: 10, answers: 4, answered: true, want: keepAliveWait, wait: 500 * time.Millisecond},
			{at: 3 * time.Second, sent: 10, answers: 5, want: keepAliveSend, wait: kato},
		}},
		{"commands without answers don't", kato, true, []event{
			{at: time.Second, sent: 9, want: keepAliveSend, wait: kato},
			{at: 5 * time.Second, sent: 20, want: keepAliveExpired},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newKeepAlive(tc.kato, tc.traffic, start)
			for _, e := range tc.events {
				if e.answered {
					k.answered(traffic{e.sent, e.answers})
				}
				if got, wait := k.step(start.Add(e.at), traffic{e.sent, e.answers}); got != e.want || wait != e.wait {
					t.Errorf("at %v: action %d, wait %v, want %d, %v", e.at, got, wait, e.want, e.wait)
				}
			}
		})
	}
}
