package operators

import (
	"context"
	_ "embed" // change.lua
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waitroom-dev/waitroom/waitroom"
)

//go:embed change.lua
var changeLua string

var scriptChange = redis.NewScript(changeLua)

// trail is in the cluster's slot of operators.
func (s *Store) trail() string { return s.prefix + ":{" + s.operators() + "}:trail" }

// shown is what the trail shows of an operator: nothing of their token.
type shown struct {
	Name      string    `json:"name"`
	Role      Role      `json:"role"`
	ExpiresAt time.Time `json:"expires_at"`
}

// change is the one caller of change.lua: it makes r, or revokes whoever has its name
// where it has no hash.
func (s *Store) change(ctx context.Context, by string, r record) error {
	var raw, told []byte
	if r.Hash != "" {
		var err, err2 error
		raw, err = json.Marshal(r)
		told, err2 = json.Marshal(shown{r.Name, r.Role, r.ExpiresAt})
		if err := errors.Join(err, err2); err != nil {
			return fmt.Errorf("encode operator: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	outcome, err := scriptChange.Run(ctx, s.rdb, []string{s.operators(), s.trail()}, r.Name, by, mostOperators, raw, told).Text()
	switch {
	case err != nil:
		return away("change operators", err)
	case outcome == "exists":
		return ErrExists
	case outcome == "none":
		return ErrNone
	case outcome == "full":
		return fault("name", "is one too many; revoke some first")
	}
	return nil
}

// MostTrail is the most records of one page of the trail.
const MostTrail = 1000

var recordID = regexp.MustCompile(`^\d{1,20}-\d{1,20}$`)

// Trail is who made and revoked operators, oldest first: at most so many records, up to
// MostTrail, behind the one with the id after, or from the first that is left of the
// newest 10,000. What is add or revoke. Error: *waitroom.InvalidError.
func (s *Store) Trail(ctx context.Context, after string, most int) ([]waitroom.AuditRecord, error) {
	start := "-"
	if after != "" {
		if !recordID.MatchString(after) {
			return nil, fault("after", "must be the id of a record")
		}
		start = "(" + after
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	msgs, err := s.rdb.XRangeN(ctx, s.trail(), start, "+", int64(max(1, min(most, MostTrail)))).Result()
	if err != nil {
		return nil, away("trail of operators", err)
	}
	records := make([]waitroom.AuditRecord, len(msgs))
	for i, m := range msgs {
		text := func(name string) string { s, _ := m.Values[name].(string); return s }
		at, _, _ := strings.Cut(m.ID, "-")
		ms, _ := strconv.ParseInt(at, 10, 64) // the store's own id
		records[i] = waitroom.AuditRecord{
			ID: m.ID, At: time.UnixMilli(ms).UTC(), By: text("by"), What: text("what"), Before: text("before"), After: text("after"),
		}
	}
	return records, nil
}
