package operators

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// Role is what an operator may do.
type Role string

// The roles, each may what the one before it may.
const (
	Viewer Role = "viewer"
	Runner Role = "operator"
	Owner  Role = "owner"
)

// Roles are all of them, the least first.
func Roles() []Role { return []Role{Viewer, Runner, Owner} }

// May tells whether the role is at least another; one that does not exist may nothing.
func (r Role) May(need Role) bool {
	return slices.Contains(Roles(), r) && slices.Index(Roles(), r) >= slices.Index(Roles(), need)
}

// Operator is who may run events.
type Operator struct {
	Name string `json:"name"`
	Role Role   `json:"role"`
	// CreatedAt, and by whom.
	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by"`
	// ExpiresAt is the token's end.
	ExpiresAt time.Time `json:"expires_at"`

	fingerprint string // which token this is
}

// Static is the operator of the token that the service is started with, whose
// sessions end when another one takes its place.
func Static(token string) Operator {
	return Operator{Name: StaticName, Role: Owner, fingerprint: hashOf(token)}
}

// StaticName is the name of the token that the service is started with.
const StaticName = "operator"

// Errors that callers branch on, beside waitroom's of tokens and of the store.
var (
	// ErrExists is that an operator of this name is there already.
	ErrExists = errors.New("an operator of this name exists")
	// ErrNone is that there is no operator of this name.
	ErrNone = errors.New("no such operator")
)

const (
	tokenPrefix = "wrop-"
	sessionLife = 12 * time.Hour
	// DefaultLife is a token's, where nothing is said.
	DefaultLife = 90 * 24 * time.Hour
	// LongestLife is the most that may be said.
	LongestLife = 366 * 24 * time.Hour
	callTimeout = 2 * time.Second
	// mostOperators bounds an installation.
	mostOperators = 1000
)

// Names are letters, digits and ".@_-", at most 64, and begin with a letter or digit.
var names = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.@_-]{0,63}$`)

// Store keeps the operators. All its methods may be called concurrently. Every one
// returns waitroom.ErrUnavailable while the store is away.
type Store struct {
	rdb    redis.UniversalClient
	prefix string
	static string // the hash of the token that the service is started with
	now    func() time.Time
}

// New makes a Store whose keys begin with the prefix; it asks nothing yet. The token is
// the one that the service is started with: its sessions are kept here too.
func New(rdb redis.UniversalClient, prefix, token string) *Store {
	return &Store{rdb: rdb, prefix: cmp.Or(prefix, "wr"), static: hashOf(token), now: time.Now}
}

// record is what is kept of an operator.
type record struct {
	Operator
	Hash string `json:"hash"`
}

func (s *Store) operators() string { return s.prefix + ":operators" }

func (s *Store) session(id string) string {
	return s.prefix + ":{operator-session:" + hashOf(id) + "}"
}

func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// away makes an error of the store's one that callers know.
func away(doing string, err error) error {
	return fmt.Errorf("%s: %w: %w", doing, waitroom.ErrUnavailable, err)
}

// Add makes an operator and their token, which is not to be had again. Errors:
// *waitroom.InvalidError, ErrExists.
func (s *Store) Add(ctx context.Context, name string, role Role, life time.Duration, by string) (Operator, string, error) {
	life = cmp.Or(life, DefaultLife)
	if err := check(name, role, life); err != nil {
		return Operator{}, "", err
	}
	token := tokenPrefix + name + "-" + rand.Text()
	now := s.now().UTC().Truncate(time.Millisecond)
	r := record{Operator{Name: name, Role: role, CreatedAt: now, CreatedBy: by, ExpiresAt: now.Add(life)}, hashOf(token)}
	if err := s.change(ctx, by, r); err != nil {
		return Operator{}, "", err
	}
	return r.Operator, token, nil
}

func check(name string, role Role, life time.Duration) error {
	switch {
	case !names.MatchString(name) || name == StaticName:
		return fault("name", "must be 1 to 64 of letters, digits and .@_-, and not operator")
	case !slices.Contains(Roles(), role):
		return fault("role", "must be viewer, operator or owner")
	case life < time.Minute || life > LongestLife:
		return fault("expires_in", "must be 1m to 8784h")
	}
	return nil
}

func fault(field, detail string) error {
	return &waitroom.InvalidError{Fields: []waitroom.FieldError{{Field: field, Detail: detail}}}
}

// Revoke ends an operator's token and sessions, on behalf of by. Error: ErrNone.
func (s *Store) Revoke(ctx context.Context, name, by string) error {
	return s.change(ctx, by, record{Operator: Operator{Name: name}})
}

// List is all operators by name, those whose token has ended included.
func (s *Store) List(ctx context.Context) ([]Operator, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	all, err := s.rdb.HGetAll(ctx, s.operators()).Result()
	if err != nil {
		return nil, away("list operators", err)
	}
	list := make([]Operator, 0, len(all))
	for _, raw := range all {
		var r record
		if err := json.Unmarshal([]byte(raw), &r); err != nil {
			return nil, fmt.Errorf("read operator: %w", err)
		}
		list = append(list, r.Operator)
	}
	slices.SortFunc(list, func(a, b Operator) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// Identify says whose token this is. Errors: waitroom.ErrTokenInvalid, ErrTokenExpired.
// A token that cannot be one costs the store nothing.
func (s *Store) Identify(ctx context.Context, token string) (Operator, error) {
	const random = 26 // the letters of rand.Text
	rest, ok := strings.CutPrefix(token, tokenPrefix)
	cut := len(rest) - random - 1
	if !ok || cut < 1 || rest[cut] != '-' || !names.MatchString(rest[:cut]) {
		return Operator{}, waitroom.ErrTokenInvalid
	}
	return s.current(ctx, rest[:cut], hashOf(token))
}

// current is the operator of a name, if that is still the same token and has not ended.
func (s *Store) current(ctx context.Context, name, hash string) (Operator, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	raw, err := s.rdb.HGet(ctx, s.operators(), name).Bytes()
	if errors.Is(err, redis.Nil) {
		return Operator{}, waitroom.ErrTokenInvalid
	}
	if err != nil {
		return Operator{}, away("find operator", err)
	}
	var r record
	if err := json.Unmarshal(raw, &r); err != nil {
		return Operator{}, fmt.Errorf("read operator: %w", err)
	}
	if !same(r.Hash, hash) {
		return Operator{}, waitroom.ErrTokenInvalid
	}
	if !s.now().Before(r.ExpiresAt) {
		return Operator{}, waitroom.ErrTokenExpired
	}
	r.fingerprint = r.Hash
	return r.Operator, nil
}
