package load

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// spec is what a parent tells a worker: the first line on its stdin. The end of
// stdin tells it to stop.
type spec struct {
	Config Config `json:"config"`
	// Worker is this one's number, 0 to Config.Workers-1: it brings the users whose
	// number leaves this rest.
	Worker int `json:"worker"`
	// Start is the moment of the first arrival; all times in facts count from it.
	Start time.Time `json:"start"`
}

// Counts are how far the people of the crowd have come; bots are no people. Waiting,
// inside the sum, is who waits now.
type Counts struct {
	Arrived  int64 `json:"arrived"`
	Joined   int64 `json:"joined"`
	Waiting  int64 `json:"waiting"`
	Admitted int64 `json:"admitted"`
	Entered  int64 `json:"entered"`
	Bought   int64 `json:"bought"`
	SoldOut  int64 `json:"sold_out"`
	Unpaid   int64 `json:"unpaid"`
	Left     int64 `json:"left"`
	Refused  int64 `json:"refused"`
	Failed   int64 `json:"failed"`
	// Calls counts HTTP calls and handshakes, tries included; Messages what came over
	// sockets; Reconnects the sockets after a user's first.
	Calls      int64 `json:"calls"`
	Messages   int64 `json:"messages"`
	Reconnects int64 `json:"reconnects"`
	// Solved are the challenges that people worked out, over all tries.
	Solved int64 `json:"solved"`
	// LeftLine gave their place up while they waited; Reloads are pages loaded again,
	// Tabs second tabs, Deaf those who never read, Polls questions of those without a
	// socket, and NotModified those of them that brought nothing new.
	LeftLine     int64 `json:"left_line"`
	Reloads      int64 `json:"reloads"`
	Tabs         int64 `json:"tabs"`
	Deaf         int64 `json:"deaf"`
	Polls        int64 `json:"polls"`
	NotModified  int64 `json:"not_modified"`
	ServerErrors int64 `json:"server_errors"`
	OwnErrors    int64 `json:"own_errors"`
}

func (c *Counts) add(o Counts) {
	c.Arrived += o.Arrived
	c.Joined += o.Joined
	c.Waiting += o.Waiting
	c.Admitted += o.Admitted
	c.Entered += o.Entered
	c.Bought += o.Bought
	c.SoldOut += o.SoldOut
	c.Unpaid += o.Unpaid
	c.Left += o.Left
	c.Refused += o.Refused
	c.Failed += o.Failed
	c.Calls += o.Calls
	c.Messages += o.Messages
	c.Reconnects += o.Reconnects
	c.Solved += o.Solved
	c.LeftLine += o.LeftLine
	c.Reloads += o.Reloads
	c.Tabs += o.Tabs
	c.Deaf += o.Deaf
	c.Polls += o.Polls
	c.NotModified += o.NotModified
	c.ServerErrors += o.ServerErrors
	c.OwnErrors += o.OwnErrors
}

// The ways a user's run can end.
const (
	endWaiting = "waiting" // the run's limit came first
	endStays   = "stays"   // bought or entered, keeps the session
	endLeft    = "left"    // gave the place up
	endGone    = "gone"    // refused, expired, or failed: nothing follows from its place
)

// fact is what is known of one user at the end. Times are microseconds since Start,
// zero where it did not happen; unix times are the service's own.
type fact struct {
	User     int    `json:"u"`
	Entry    string `json:"e,omitempty"`
	Lane     string `json:"ln,omitempty"`
	Sent     int64  `json:"s,omitempty"`  // the join's first try was sent
	Answered int64  `json:"a,omitempty"`  // the join's answer was read
	Admitted int64  `json:"ad,omitempty"` // the entry token was in hand
	IAT      int64  `json:"i,omitempty"`  // unix seconds
	Expires  int64  `json:"x,omitempty"`  // expires_at, unix milliseconds
	Promoted int64  `json:"m,omitempty"`  // admitted_at, unix milliseconds, if it was told and fits iat
	Prompt   bool   `json:"p,omitempty"`  // was there when admitted: the token's lag is the service's
	JTI      string `json:"j,omitempty"`
	Waiting  int64  `json:"w,omitempty"`  // the last sign that it waited
	Entered  int64  `json:"en,omitempty"` // first reserved or passed the gate
	Left     int64  `json:"l,omitempty"`  // leaving was sent
	LeftOK   bool   `json:"lo,omitempty"` // and answered
	Polled   bool   `json:"po,omitempty"` // had no socket: asked, and Waiting is when
	End      string `json:"f"`

	Purchases []purchase `json:"b,omitempty"`
}

// purchase is one reservation that was answered 201.
type purchase struct {
	ID       string   `json:"id"`
	Seats    []string `json:"s,omitempty"`
	Quantity int      `json:"q"`
	// Places are those of the items among Seats, which more than one may have.
	Places   map[string]int64 `json:"pl,omitempty"`
	Answered int64            `json:"a"`
	// Until is the earliest moment at which the seats may have gone back: it is
	// certain that they were this user's from Answered to here. Zero: sold for good.
	Until int64  `json:"u,omitempty"`
	State string `json:"st"`
}

// result is what a worker knows when all its users are done.
type result struct {
	Counts     Counts            `json:"counts"`
	Histograms map[string]string `json:"histograms"`
	Verdicts   []Verdict         `json:"verdicts"`
	Server     Trouble           `json:"server"`
	Own        Trouble           `json:"own"`
	Refusals   Trouble           `json:"refusals"`
	PeakRSS    int64             `json:"peak_rss"`
	Bots       Bots              `json:"bots"`
	Notes      []string          `json:"notes,omitempty"`
}

// line is one line from a worker: exactly one field is set.
type line struct {
	Progress *Counts `json:"progress,omitempty"`
	Facts    []fact  `json:"facts,omitempty"`
	Result   *result `json:"result,omitempty"`
}

// lines writes lines, one at a time.
type lines struct {
	mu  sync.Mutex
	enc *json.Encoder // guarded by mu
}

func newLines(w io.Writer) *lines { return &lines{enc: json.NewEncoder(w)} }

func (l *lines) write(one line) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.enc.Encode(one); err != nil {
		return fmt.Errorf("tell the parent: %w", err)
	}
	return nil
}

// readLines hands each line to f until the stream ends; a worker that ended without
// its result is an error.
func readLines(r io.Reader, f func(line) error) error {
	dec := json.NewDecoder(r)
	for whole := false; ; {
		var one line
		switch err := dec.Decode(&one); {
		case errors.Is(err, io.EOF) && whole:
			return nil
		case err != nil:
			return fmt.Errorf("worker's result: %w", err)
		}
		whole = whole || one.Result != nil
		if err := f(one); err != nil {
			return err
		}
	}
}
