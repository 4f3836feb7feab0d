package guard

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	event   = "sale"
	siteKey = "site-key-of-the-tests"
)

// service is the part of Waitroom that the guard speaks to.
type service struct {
	*httptest.Server

	asked, fetched, checked atomic.Int64

	mu        sync.Mutex // guards what follows
	kid       string
	key       ed25519.PrivateKey
	public    map[string]ed25519.PublicKey
	refuse    map[string]*RefusedError // by token
	used      map[string]bool
	silence   bool
	storeless bool
}

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{public: map[string]ed25519.PublicKey{}, refuse: map[string]*RefusedError{}, used: map[string]bool{}}
	s.rotate(t, "k1")
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/jwks.json", s.jwks)
	mux.HandleFunc("GET /v1/gate/"+event, s.verdict)
	mux.HandleFunc("POST /v1/events/"+event+"/sessions/{jti}/use", s.use)
	mux.HandleFunc("POST /v1/events/"+event+"/sessions/check", s.check)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// rotate signs with a new key from now on.
func (s *service) rotate(t *testing.T, kid string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kid, s.key, s.public[kid] = kid, private, public
}

func (s *service) jwks(w http.ResponseWriter, _ *http.Request) {
	s.fetched.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []map[string]string
	for kid, key := range s.public {
		keys = append(keys, map[string]string{
			"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": kid,
			"x": base64.RawURLEncoding.EncodeToString(key),
		})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"keys": keys})
}

func (s *service) verdict(w http.ResponseWriter, r *http.Request) {
	s.asked.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	refuse := s.refuse[r.Header.Get("X-Entry-Token")]
	if s.silence {
		refuse = &RefusedError{Status: http.StatusForbidden, Code: "unavailable"}
	}
	if refuse != nil {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(refuse.Status)
		_ = json.NewEncoder(w).Encode(map[string]string{"code": refuse.Code})
		return
	}
	if s.storeless {
		w.Header().Set("X-Waitroom-Unchecked", "1")
	}
	w.Header().Set("X-Waitroom-User", "ann")
	w.Header().Set("X-Waitroom-Entry", "entry-of-ann")
	w.WriteHeader(http.StatusNoContent)
}

func (s *service) use(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch jti := r.PathValue("jti"); {
	case r.Header.Get("Authorization") != "Bearer "+siteKey:
		w.WriteHeader(http.StatusUnauthorized)
	case s.used[jti]:
		w.WriteHeader(http.StatusConflict)
		_, _ = w.Write([]byte(`{"code":"token_used"}`))
	default:
		s.used[jti] = true
		w.WriteHeader(http.StatusNoContent)
	}
}

// check refuses together whom it would refuse apart.
func (s *service) check(w http.ResponseWriter, r *http.Request) {
	s.checked.Add(1)
	var question struct{ JTIs []string }
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer "+siteKey || s.silence || json.NewDecoder(r.Body).Decode(&question) != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	refused := map[string]string{}
	for token, refuse := range s.refuse {
		var c jwt.RegisteredClaims
		if _, _, err := jwt.NewParser().ParseUnverified(token, &c); err == nil && slices.Contains(question.JTIs, c.ID) {
			refused[c.ID] = refuse.Code
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"refused": refused})
}

func (s *service) says(token string, refuse *RefusedError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse[token] = refuse
}

func (s *service) away(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.storeless = yes
}

func (s *service) silent(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silence = yes
}

// token is an entry token of ann's, changed.
func (s *service) token(t *testing.T, change func(jwt.MapClaims, *jwt.Token)) string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	c := jwt.MapClaims{
		"iss": s.URL, "aud": event, "sub": "ann", "jti": rand.Text(),
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
	}
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, c)
	token.Header["kid"] = s.kid
	if change != nil {
		change(c, token)
	}
	signed, err := token.SignedString(s.key)
	require.NoError(t, err)
	return signed
}

// newGuard guards a page that greets whoever gets in.
func newGuard(t *testing.T, s *service, change func(*Config)) http.Handler {
	t.Helper()
	cfg := Config{Service: s.URL, Event: event, Client: s.Client(), SiteKey: siteKey}
	if change != nil {
		change(&cfg)
	}
	g, err := New(cfg)
	require.NoError(t, err)
	return g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok := FromContext(r.Context())
		if !ok {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = w.Write([]byte(who.User + " " + who.Entry))
	}))
}

// visit asks the guarded site for a page.
func visit(h http.Handler, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "http://shop.example"+path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// codeOf is the refusal's code.
func codeOf(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"), w.Body)
	var problem struct {
		Code   string
		Status int
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &problem))
	require.Equal(t, w.Code, problem.Status)
	return problem.Code
}
