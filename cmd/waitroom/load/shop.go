package load

import (
	"math/rand/v2"
	"sync"
	"time"
)

// shop is what a worker's users know of the seats. Each of them asks for the map;
// only a new one is read, by the first who gets it.
type shop struct {
	mu    sync.Mutex
	etag  string    // guarded by mu
	free  []string  // guarded by mu; replaced, never changed
	left  int64     // guarded by mu: of a stock
	seats bool      // guarded by mu: there is a map of seats
	read  time.Time // guarded by mu: when the map was read last
	// places are how many one item has, such as a slot or a course; guarded by mu.
	places map[string]int64
}

// reread is how old a reading may be for the next user: nobody looks at seats for a
// shorter time, and reading large maps is work that the service's machine may share.
const reread = 200 * time.Millisecond

// seatMap is the answer to GET seats, as far as it matters here.
type seatMap struct {
	Sections []struct {
		Seats []struct {
			ID     string `json:"id"`
			Status string `json:"status"`
		} `json:"seats"`
	} `json:"sections"`
	Items []struct {
		ID    string `json:"id"`
		Total int64  `json:"total"`
		Free  int64  `json:"free"`
	} `json:"items"`
}

func (s *shop) tag() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.etag
}

// learn takes a map in, unless it is the one that is known.
func (s *shop) learn(a answer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	tag := a.header.Get("ETag")
	if tag != "" && tag == s.etag || time.Since(s.read) < reread {
		return nil
	}
	s.read = time.Now()
	var m seatMap
	if err := decode(a.body, &m); err != nil {
		return err
	}
	var free []string
	for _, sec := range m.Sections {
		for _, seat := range sec.Seats {
			if seat.Status == "free" {
				free = append(free, seat.ID)
			}
		}
	}
	s.left, s.places = 0, make(map[string]int64, len(m.Items))
	for _, item := range m.Items {
		s.left += item.Free
		s.places[item.ID] = item.Total
	}
	s.etag, s.free, s.seats = tag, free, len(m.Sections) > 0
	return nil
}

// shared are those of the ids that are items, with the places of each.
func (s *shop) shared(ids []string) map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var places map[string]int64
	for _, id := range ids {
		if n, ok := s.places[id]; ok {
			if places == nil {
				places = make(map[string]int64, len(ids))
			}
			places[id] = n
		}
	}
	return places
}

// pick chooses n free seats side by side in the list; nil: none are known. left says
// whether there is anything to be had at all.
func (s *shop) pick(n int, rng *rand.Rand) (seats []string, left bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.seats {
		return nil, s.left > 0
	}
	if len(s.free) < n {
		return nil, len(s.free) > 0
	}
	at := rng.IntN(len(s.free) - n + 1)
	return s.free[at : at+n : at+n], true
}
