package admission

import (
	"sync"
	"time"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// shares are the rates of the events and lanes of one term that load the same database:
// each law sees the load of all of them, and none knows from it whose it is. Left to
// that, whoever opened first would keep nearly all of it.
type shares struct {
	mu  sync.Mutex // guards all
	all map[string]part
}

// part is what one of them has at the moment.
type part struct {
	perS float64
	at   time.Time
}

// shareFor is how long a share counts that nobody renews: some ticks.
const shareFor = time.Second

// mean is the mean rate of all who share, or 0 for one that is alone or shares nothing
// now: who has people waiting, and whom nothing but the load holds back.
func (s *shares) mean(event waitroom.EventID, lane string) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, shares := s.all[string(event)+"/"+lane]; !shares {
		return 0
	}
	sum := 0.0
	for name, one := range s.all {
		if time.Since(one.at) > shareFor {
			delete(s.all, name)
			continue
		}
		sum += one.perS
	}
	if len(s.all) < 2 {
		return 0
	}
	return sum / float64(len(s.all))
}

// note takes in what was decided on one of them.
func (s *shares) note(ev waitroom.Event, d Decision, through bool) {
	sells := ev.Tickets.Kind != "" && ev.Tickets.Kind != "none" // else the pools are no load of it
	held := d.Reason == ReasonTarget || d.Reason == ReasonBusy || d.Reason == ReasonRecovering
	name := string(ev.ID) + "/" + ev.Lane
	s.mu.Lock()
	defer s.mu.Unlock()
	if !sells || !held || through || ev.Load.Law != lawTarget || ev.Waiting == 0 {
		delete(s.all, name)
		return
	}
	if s.all == nil {
		s.all = make(map[string]part)
	}
	s.all[name] = part{perS: d.RatePerS, at: time.Now()}
}
