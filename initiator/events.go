package initiator

import (
	"context"
	"time"

	"rbd/wire"
)

// enableEvents asks the controller to tell of changes of its namespaces. What
// changes from now on is told when watchEvents asks.
func (a *association) enableEvents(ctx context.Context) error {
	if a.info.id.OAES&wire.OAESNamespace == 0 {
		return nil
	}
	_, err := a.setFeature(ctx, wire.FeatureAsyncEvents, wire.OAESNamespace)
	if isStatus(err) {
		a.eventTrouble("configure asynchronous events", err)
		return nil
	}
	a.events = err == nil
	return err
}

// watchEvents waits for what the controller tells, and acts on it, until the
// connection ends. What goes wrong here is logged: the disks work without.
func (a *association) watchEvents() {
	ctx := a.life
	for {
		_, cqe, err := a.exec(ctx, a.admin, adminCommand{sqe: wire.AsyncEventRequestSQE(), patient: true})
		if err != nil {
			a.eventTrouble("wait for an asynchronous event", err)
			return
		}
		event := wire.ParseAsyncEvent(cqe.DW0())
		if event != wire.NamespaceChanged() {
			a.c.opts.Logger.Info("asynchronous event", "nqn", a.c.opts.SubNQN, "event", event.String())
			continue
		}
		a.followNamespaces(ctx)
	}
}

// followNamespaces acts on a change of namespaces. As long as the controller can't
// tell them for a moment, they are what they were, and it is asked again.
func (a *association) followNamespaces(ctx context.Context) {
	var before string // what went wrong the last time
	for {
		err := a.namespacesChanged(ctx)
		if err == nil {
			return
		}
		if err.Error() != before {
			before = err.Error()
			a.eventTrouble("look for changed namespaces", err)
		}
		if !isTransient(err) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(a.c.opts.ReconnectDelay, time.Second)):
		}
	}
}

// namespacesChanged reads the log page, which lets the next event come, and then
// the namespaces themselves. The list in the page is of no use: it may be
// incomplete, and everything is compared anyway.
func (a *association) namespacesChanged(ctx context.Context) error {
	if _, err := a.logPage(ctx, wire.LogChangedNS, wire.NSIDAll, 0, wire.IdentifySize, true); err != nil {
		return err
	}
	found, err := a.survey(ctx)
	if err != nil {
		return err
	}
	a.c.adopt(found, false)
	return nil
}

func (a *association) eventTrouble(what string, err error) {
	if a.err() == nil {
		a.c.opts.Logger.Warn(what, "nqn", a.c.opts.SubNQN, "err", err)
	}
}
