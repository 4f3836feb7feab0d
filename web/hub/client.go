package hub

import (
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// owed are the messages a client is to get, made only when they are written: so a
// newer one replaces an older one that was not sent yet, and nothing is stored.
type owed uint16

const (
	owesPosition owed = 1 << iota
	owesAdmitted
	owesEnded
	owesNotice
	owesPing
	owesBye
	owesClose
	owesSeats
	owesParty
)

// client is one socket. One shard owns it at a time and is the only one that
// writes to it; the fields below the line are that shard's alone.
type client struct {
	room   *room
	conn   net.Conn
	raw    syscall.RawConn       // nil where conn has no file of its own
	home   *shard                // where the reader posts, whoever owns the client now
	owner  atomic.Pointer[shard] // the shard that writes
	heard  atomic.Int64          // tick of the last sign of life, written by the reader
	fd     int                   // in the poller, and guarded by its mutex; 0: not there
	sse    bool
	mobile bool

	hearing hearing // the reader's alone

	// ----
	person *person // nil until the hello
	next   *client // the person's other tabs
	due    int64   // tick of the planned visit; 0: none
	since  int64   // tick of the socket's opening
	ping   int64   // tick of the last ping
	stuck  int64   // tick at which rest could not be sent; 0: nothing waits
	endBy  int64   // tick at which a closed socket is cut; 0: not closing
	notice int64   // number of the last notice that was sent
	bye    time.Duration
	shops  int64 // where it is in the row of the map's changes; 0: it is not told them
	code   Code

	queue [][]byte // one-off messages, framed
	rest  []byte   // what did not fit into the socket of messages begun
	owes  owed
	// sealed: the close frame is written, or part of rest; nothing follows it.
	sealed bool
	waits  bool // is in the shard's backlog
	// curious: the next step is told even if nothing changed.
	curious bool
	done    bool // cut
}

// person is somebody with sockets on this node, or one whose last socket closed
// only a moment ago. They belong to one shard, chosen by the id of the entry whose place
// they have: their own, or that of their party, so that its members are together.
type person struct {
	room    *room
	entry   waitroom.EntryID
	party   *membership // nil: alone
	receipt string
	subject string // of the last turn, where the site has a name of its own for the person
	seq     waitroom.Seq
	shown   int64 // the smallest position told so far for seq; 0: none
	state   waitroom.EntryState
	turn    *turn // while admitted or entered
	tabs    *client
	asked   int64 // tick before which the line is not asked again
	asking  bool
	again   bool  // something changed while the line was asked
	leaving bool  // gives the place up, as soon as the line takes it
	mobile  bool  // the last socket that opened was a phone's
	gone    int64 // tick at which the last socket closed
}

// turn is a grant as its holder is told of it.
type turn struct {
	jti     string
	ends    time.Time // by the store's clock; asked about then, if nobody says that it is over
	message []byte
}

// add makes c one of p's tabs.
func (p *person) add(c *client) {
	c.person = p
	c.next = p.tabs
	p.tabs = c
	p.mobile = c.mobile
}

// remove takes c from p's tabs.
func (p *person) remove(c *client) {
	for at := &p.tabs; *at != nil; at = &(*at).next {
		if *at == c {
			*at = c.next
			break
		}
	}
	c.next, c.person = nil, nil
}

// moved makes p's place the one at seq. The least position told starts afresh,
// since it was another place's.
func (p *person) moved(seq waitroom.Seq) {
	p.seq, p.shown = seq, 0
	p.state, p.turn, p.leaving = waitroom.EntryWaiting, nil, false
}
