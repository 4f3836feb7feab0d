package waitroom

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/waitroom-dev/waitroom/waitroom/rank"
)

// errFeed is a feed record that is not what the scripts write. Nothing of it is
// used; the view loads the line anew.
var errFeed = errors.New("bad feed record")

// feedRecord is what one script did to one event's line, as the feed tells it.
// All of it is absolute, so reading a record twice does no harm.
type feedRecord struct {
	base     int64       // b: sequences from base+1 on are of the current epoch
	moment   int64       // m: the event's clock, unix ms
	version  bool        // v: settings, state or base changed
	granted  []Grant     // g: promoted, out of the line
	departed []Departure // d: out of the line without a grant
	returned []Seq       // r: put back into the line
	ended    []End       // x: grants that are over
	numbered []Result    // n: people who have their numbers
	parties  []change    // p: parties whose members or buyer are others now
}

// parseFeed reads a record of event's feed strictly: one wrong line, and none of
// it counts. Fields with names it does not know are passed over, so that a newer
// version may write more; whatever changes a place stays in g, d and r.
func parseFeed(event EventID, values map[string]any) (feedRecord, error) {
	fields := make(map[string]string, len(values))
	for name, v := range values {
		s, ok := v.(string)
		if !ok {
			return feedRecord{}, fmt.Errorf("%w: field %s is a %T", errFeed, name, v)
		}
		fields[name] = s
	}
	var r feedRecord
	var errs [8]error
	r.base, errs[0] = feedNumber("base", fields["b"], 0)
	r.moment, errs[1] = feedNumber("moment", fields["m"], 1)
	_, r.version = fields["v"]
	r.granted, errs[2] = feedLines(fields, "g", func(line string) (Grant, error) { return feedGrant(event, line) })
	r.departed, errs[3] = feedLines(fields, "d", feedDeparture)
	r.returned, errs[4] = feedLines(fields, "r", feedReturn)
	r.ended, errs[5] = feedLines(fields, "x", feedEnded)
	r.numbered, errs[6] = feedLines(fields, "n", feedResult)
	r.parties, errs[7] = feedLines(fields, "p", feedParty)
	if err := errors.Join(errs[:]...); err != nil {
		return feedRecord{}, err
	}
	return r, nil
}

// feedLines reads a field's lines, each a copy: the record they stand in is long,
// and what is read from them may be kept.
func feedLines[T any](fields map[string]string, name string, read func(line string) (T, error)) ([]T, error) {
	text, found := fields[name]
	if !found {
		return nil, nil
	}
	list := make([]T, 0, strings.Count(text, "\n")+1)
	for line := range strings.SplitSeq(text, "\n") {
		v, err := read(strings.Clone(line))
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", name, err)
		}
		list = append(list, v)
	}
	return list, nil
}

// feedGrant reads "entry seq jti admitted_ms claim_ms subject".
func feedGrant(event EventID, line string) (Grant, error) {
	p, err := feedParts(line, 6)
	if err != nil {
		return Grant{}, err
	}
	_, _, errPlace := feedPlace(p[0], p[1])
	_, errAdmitted := feedNumber("admission", p[3], 1)
	_, errClaim := feedNumber("claim", p[4], 1)
	g, errGrant := parseGrant(event, line)
	if err := errors.Join(errPlace, feedName("jti", p[2]), errAdmitted, errClaim, feedName("subject", p[5])); err != nil {
		return Grant{}, err
	}
	if errGrant != nil {
		return Grant{}, fmt.Errorf("%w: %w", errFeed, errGrant)
	}
	return g, nil
}

// feedDeparture reads "entry seq state".
func feedDeparture(line string) (Departure, error) {
	p, err := feedParts(line, 3)
	if err != nil {
		return Departure{}, err
	}
	entry, seq, err := feedPlace(p[0], p[1])
	if err != nil {
		return Departure{}, err
	}
	state := EntryState(p[2])
	if state != EntryLeft && state != EntryExpired && state != EntryBlocked {
		return Departure{}, fmt.Errorf("%w: departure as %q", errFeed, state)
	}
	return Departure{Entry: entry, Seq: seq, State: state}, nil
}

// feedReturn reads "entry seq".
func feedReturn(line string) (Seq, error) {
	p, err := feedParts(line, 2)
	if err != nil {
		return 0, err
	}
	_, seq, err := feedPlace(p[0], p[1])
	return seq, err
}

// feedEnded reads "entry jti state". A state that is not known is taken as it is:
// only the number of lines changes a count.
func feedEnded(line string) (End, error) {
	p, err := feedParts(line, 3)
	if err != nil {
		return End{}, err
	}
	if err := errors.Join(feedName("entry", p[0]), feedName("jti", p[1]), feedName("state", p[2])); err != nil {
		return End{}, err
	}
	return End{Entry: EntryID(p[0]), JTI: p[1], State: EntryState(p[2])}, nil
}

// feedResult reads "entry seq winner".
func feedResult(line string) (Result, error) {
	p, err := feedParts(line, 3)
	if err != nil {
		return Result{}, err
	}
	n, err := feedNumber("number", p[1], 1)
	if err := errors.Join(feedName("entry", p[0]), err); err != nil {
		return Result{}, err
	}
	return Result{Entry: EntryID(p[0]), Seq: n, Winner: p[2] == "1"}, nil
}

// change is a party, as its entry, whose members are others now, and perhaps who came or
// went.
type change struct{ party, member EntryID }

// feedParty reads "entry" or "entry member".
func feedParty(line string) (change, error) {
	party, member, both := strings.Cut(line, " ")
	err := feedName("entry", party)
	if both {
		err = errors.Join(err, feedName("member", member))
	}
	return change{EntryID(party), EntryID(member)}, err
}

func feedParts(line string, n int) ([]string, error) {
	p := strings.Split(line, " ")
	if len(p) != n {
		return nil, fmt.Errorf("%w: a line of %d parts, want %d", errFeed, len(p), n)
	}
	return p, nil
}

func feedPlace(entry, seq string) (EntryID, Seq, error) {
	n, err := feedNumber("seq", seq, 1)
	if err := errors.Join(feedName("entry", entry), err); err != nil {
		return "", 0, err
	}
	return EntryID(entry), Seq(n), nil
}

// feedNumber reads a plain decimal number from least on, as exact as a score.
func feedNumber(name, s string, least int64) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < least || n >= rank.MaxSeq || s != strconv.FormatInt(n, 10) {
		return 0, fmt.Errorf("%w: %s %q", errFeed, name, s)
	}
	return n, nil
}

// feedName checks an id or an encoded subject: base64url's characters and the dot.
func feedName(name, s string) error {
	if s == "" || len(s) > 4096 {
		return fmt.Errorf("%w: %s of %d bytes", errFeed, name, len(s))
	}
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return fmt.Errorf("%w: %s %q", errFeed, name, s)
		}
	}
	return nil
}

// streamID is where a record stands in a stream: "ms-n".
type streamID struct{ ms, n uint64 }

func parseStreamID(s string) (streamID, error) {
	ms, n, found := strings.Cut(s, "-")
	if !found {
		return streamID{}, fmt.Errorf("%w: id %q", errFeed, s)
	}
	var id streamID
	var errMS, errN error
	id.ms, errMS = strconv.ParseUint(ms, 10, 64)
	id.n, errN = strconv.ParseUint(n, 10, 64)
	if errMS != nil || errN != nil {
		return streamID{}, fmt.Errorf("%w: id %q", errFeed, s)
	}
	return id, nil
}

func (a streamID) String() string {
	return strconv.FormatUint(a.ms, 10) + "-" + strconv.FormatUint(a.n, 10)
}

func (a streamID) before(b streamID) bool { return a.ms < b.ms || a.ms == b.ms && a.n < b.n }
