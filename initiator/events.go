package initiator

import (
	"context"

	"rbd/wire"
)

// enableEvents asks the controller to tell of changes of its namespaces. What
// changes from now on is told when watchEvents asks.
func (c *Controller) enableEvents(ctx context.Context) error {
	if c.info.id.OAES&wire.OAESNamespace == 0 {
		return nil
	}
	_, err := c.setFeature(ctx, wire.FeatureAsyncEvents, wire.OAESNamespace)
	if isStatus(err) {
		c.eventTrouble("configure asynchronous events", err)
		return nil
	}
	c.events = err == nil
	return err
}

// watchEvents waits for what the controller tells, and acts on it, until the
// connection ends. What goes wrong here is logged: the disks work without.
func (c *Controller) watchEvents() {
	ctx := c.life
	for {
		_, cqe, err := c.exec(ctx, c.admin, adminCommand{sqe: wire.AsyncEventRequestSQE(), patient: true})
		if err != nil {
			c.eventTrouble("wait for an asynchronous event", err)
			return
		}
		event := wire.ParseAsyncEvent(cqe.DW0())
		if event != wire.NamespaceChanged() {
			c.opts.Logger.Info("asynchronous event", "nqn", c.opts.SubNQN, "event", event.String())
			continue
		}
		if err := c.namespacesChanged(ctx); err != nil {
			c.eventTrouble("look for changed namespaces", err)
		}
	}
}

// namespacesChanged reads the log page, which lets the next event come, and then
// the namespaces themselves. The list in the page is of no use: it may be
// incomplete, and everything is compared anyway.
func (c *Controller) namespacesChanged(ctx context.Context) error {
	if _, err := c.logPage(ctx, wire.LogChangedNS, wire.NSIDAll, 0, wire.IdentifySize, true); err != nil {
		return err
	}
	changes, err := c.rescan(ctx)
	if err != nil {
		return err
	}
	for _, ch := range changes {
		c.opts.Logger.Info("namespace "+ch.Kind.String(), "nqn", c.opts.SubNQN, "nsid", ch.Namespace.nsid, "size", ch.Namespace.Size())
		if c.opts.OnNamespaceChange != nil {
			c.opts.OnNamespaceChange(ch)
		}
	}
	return nil
}

func (c *Controller) eventTrouble(what string, err error) {
	if c.State() == StateLive || c.State() == StateConnecting {
		c.opts.Logger.Warn(what, "nqn", c.opts.SubNQN, "err", err)
	}
}
