//go:build !linux

package hub

// poller is nothing here: each socket is read by a goroutine of its own.
type poller struct{}

func newPoller() (*poller, error) { return &poller{}, nil }

func (*poller) add(*client) bool { return false }
func (*poller) remove(*client)   {}
func (*poller) close()           {}
func (*poller) run(*Hub) error   { return nil }
