package waitroom

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

// Config is what a Line needs to know besides its store.
type Config struct {
	// Prefix begins every key. Default "wr"; no braces.
	Prefix string
	// Node names this process among those that share the store. Default random; at
	// most 64 characters, no blanks.
	Node string
	// ReceiptKeys sign and verify receipts: the first signs, all verify. At least
	// one, each of at least 32 bytes.
	ReceiptKeys [][]byte
	// SubjectKey makes entry ids out of the site's subjects. It must stay the same
	// for an event's whole life. Default: derived from the last receipt key.
	SubjectKey []byte
	// CallTimeout bounds each call of the store, resending included. Default 2s.
	CallTimeout time.Duration
	// Batch is the most joins or polls that go in one call. Default 64, at most 256.
	Batch int
	// Queue is the most callers of one event that wait for a call to go out; more
	// are refused with ErrBusy. Default 20,000.
	Queue int
	// Requests take the requests of mode buffered. Default: a stream of the store.
	Requests RequestQueue
}

// Validate names everything that is wrong, field by field.
func (c Config) Validate() error {
	var errs []error
	if strings.ContainsAny(c.Prefix, "{}") {
		errs = append(errs, fmt.Errorf("prefix %q: braces are for hash tags", c.Prefix))
	}
	if len(c.ReceiptKeys) == 0 {
		errs = append(errs, errors.New("receipt keys: at least one is needed"))
	}
	for i, k := range c.ReceiptKeys {
		if len(k) < 32 {
			errs = append(errs, fmt.Errorf("receipt key %d: %d bytes, at least 32 are needed", i, len(k)))
		}
	}
	if c.SubjectKey != nil && len(c.SubjectKey) < 32 {
		errs = append(errs, fmt.Errorf("subject key: %d bytes, at least 32 are needed", len(c.SubjectKey)))
	}
	if strings.ContainsAny(c.Node, " \n") || len(c.Node) > 64 {
		errs = append(errs, fmt.Errorf("node %q: at most 64 characters without blanks", c.Node))
	}
	if c.CallTimeout < 0 {
		errs = append(errs, fmt.Errorf("call timeout %v: must not be negative", c.CallTimeout))
	}
	if c.Batch < 0 || c.Batch > 256 {
		errs = append(errs, fmt.Errorf("batch %d: must be 1 to 256", c.Batch))
	}
	if c.Queue < 0 {
		errs = append(errs, fmt.Errorf("queue %d: must not be negative", c.Queue))
	}
	return errors.Join(errs...)
}

// Line is every event's line in one store. All its methods may be called
// concurrently, from any number of processes on the same store.
type Line struct {
	cfg    Config
	rdb    redis.UniversalClient
	log    *zap.Logger
	keys   keys
	signer receipts

	joins  *batcher[EventID, joinCall, joinReply]
	places *batcher[EventID, placeCall, placeReply]
	issues *batcher[issueKey, joinCall, placeReply]
	queues *batcher[EventID, enqueueCall, placeReply]
	draws  *draws

	mu sync.Mutex // guards the fields below
	// seen is the highest sequence of each lane this process was ever told of, by event.
	// A store whose counter is behind one has lost writes, and starts a new epoch.
	seen map[EventID]*[mostLanes]Seq
	// unlisted are the events of which the store did not know this node when it last
	// said who is here; the next heartbeat tells.
	unlisted map[EventID]bool
	// followers are those of the view of this process, by event.
	followers map[EventID]*follower
}

// New makes a Line; it connects to nothing. The client must have
// ContextTimeoutEnabled, or its own read timeout bounds calls instead of
// CallTimeout; that is logged.
func New(cfg Config, rdb redis.UniversalClient, log *zap.Logger) (*Line, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("line: %w", err)
	}
	cfg.Prefix = cmp.Or(cfg.Prefix, "wr")
	cfg.Node = cmp.Or(cfg.Node, newID())
	cfg.CallTimeout = cmp.Or(cfg.CallTimeout, 2*time.Second)
	cfg.Batch = cmp.Or(cfg.Batch, 64)
	cfg.Queue = cmp.Or(cfg.Queue, 20_000)
	if cfg.SubjectKey == nil {
		m := hmac.New(sha256.New, cfg.ReceiptKeys[len(cfg.ReceiptKeys)-1])
		m.Write([]byte("waitroom subject key"))
		cfg.SubjectKey = m.Sum(nil)
	}
	l := &Line{
		cfg:    cfg,
		rdb:    rdb,
		log:    log.Named("line"),
		draws:  newDraws(),
		keys:   keys{prefix: cfg.Prefix},
		signer: newReceipts(cfg.ReceiptKeys...),
		seen:   make(map[EventID]*[mostLanes]Seq), unlisted: make(map[EventID]bool), followers: make(map[EventID]*follower),
	}
	if !obeysContext(rdb) {
		l.log.Warn("store client ignores call timeouts")
	}
	l.joins = newBatcher(cfg.Batch, cfg.Queue, l.sendJoins)
	l.places = newBatcher(cfg.Batch, cfg.Queue, l.sendPlaces)
	l.issues = newBatcher(max(cfg.Batch, mostIssues), cfg.Queue, l.sendIssues)
	l.queues = newBatcher(cfg.Batch, cfg.Queue, l.sendEnqueues)
	return l, nil
}

// obeysContext says whether a context's deadline ends the client's reads.
func obeysContext(rdb redis.UniversalClient) bool {
	switch c := rdb.(type) {
	case *redis.Client:
		return c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		return c.Options().ContextTimeoutEnabled
	default:
		return true // not for us to know
	}
}

// Node is this process's name.
func (l *Line) Node() string { return l.cfg.Node }

// Ping says whether the store answers: nil, or ErrUnavailable.
func (l *Line) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	if err := l.rdb.Ping(ctx).Err(); err != nil {
		return unavailable(err)
	}
	return nil
}

// entryOf is the entry of one of the site's own subjects: the same person is the
// same entry on every device, and the id does not tell the subject.
func (l *Line) entryOf(event EventID, subject string) EntryID {
	m := hmac.New(sha256.New, l.cfg.SubjectKey)
	m.Write([]byte(event))
	m.Write([]byte{0})
	m.Write([]byte(subject))
	return EntryID(base64.RawURLEncoding.EncodeToString(m.Sum(nil)[:idBytes]))
}

// saw remembers the highest sequence of an event.
func (l *Line) saw(event EventID, s Seq) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.seen[event]
	if all == nil {
		all = new([mostLanes]Seq)
		l.seen[event] = all
	}
	// An event without lanes has all its sequences in one of these, whichever it is.
	if lane := s / laneSpan; lane >= 0 && lane < mostLanes {
		all[lane] = max(all[lane], s)
	}
}

// highest is the highest sequence of each lane that was seen; 0 for none.
func (l *Line) highest(event EventID) [mostLanes]Seq {
	l.mu.Lock()
	defer l.mu.Unlock()
	if all := l.seen[event]; all != nil {
		return *all
	}
	return [mostLanes]Seq{}
}

func (l *Line) forget(event EventID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.seen, event)
	delete(l.unlisted, event)
}

// The sizes of ids before encoding: 96 bits of a request's id and of what is made of
// a site's subject, 72 of an anonymous entry's. Those are kept twice for each person
// who waits, and 12 characters take 8 bytes less of Redis than 16 each time; among a
// million entries two are the same once in ten billion events.
const (
	idBytes    = 12
	entryBytes = 9
)

// newID is a request's id, base64url.
func newID() string {
	var b [idBytes]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// newEntry is an anonymous entry's id, base64url.
func newEntry() EntryID {
	var b [entryBytes]byte
	_, _ = rand.Read(b[:]) // as above
	return EntryID(base64.RawURLEncoding.EncodeToString(b[:]))
}
