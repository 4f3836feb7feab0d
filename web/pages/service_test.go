package pages_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/web/challenge"
	"github.com/waitroom-dev/waitroom/web/pages"
)

// csp is at least as strict as what the service sends with its pages.
const csp = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +

	"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// doc is one JSON object.
type doc map[string]any

// call is one request as the service saw it.
type call struct {
	Method, Path, Query string
	At                  time.Time
	Header              http.Header
	Body                string
}

// refusal is an answer that says no.
type refusal struct {
	status int
	code   string
	retry  int // seconds; 0: none
}

// service plays the server's side of the contract: its public event, one place at a
// time, both kinds of live connection, a small hall. The real one is tested with the
// pages in cmd.
type service struct {
	t       *testing.T
	address string

	mu         sync.Mutex // guards what follows
	event      doc
	ahead      time.Duration // of the service's clock before ours
	place      doc           // the answer to entries/me; nil: nobody has joined
	token      string
	joined     int
	unchanged  int                   // answers to entries/me that the page had already
	challenges *challenge.Challenger // nil: nobody is asked
	settings   waitroom.ChallengeSettings
	noWidget   bool // the build has no widget
	seats      map[string]string
	version    int
	sale       doc
	refuse     map[string][]refusal // by "METHOD /path below the event": the next answers
	calls      []call
	wires      map[chan doc]bool
	hellos     []string
	noSocket   bool
	noStream   bool
	anyone     bool               // entries/me knows everybody, whatever the token
	eligible   func(said doc) doc // why who joins with this body may not, or nil; nil: all may
	decided    []doc              // on each lane, for the console
	newcomer   doc                // the answer to who joins; nil: at 50 in line
	proof      any                // of the draw, for draw/me; nil: not in it
}

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{
		t:      t,
		event:  doc{"id": "demo", "name": "Demo night", "mode": "queue", "order": "fifo", "state": "open", "waiting": 120, "rate_per_s": 2, "seats_left": 6},
		seats:  make(map[string]string),
		refuse: make(map[string][]refusal),
		wires:  make(map[chan doc]bool),
	}
	for row := range 2 {
		for n := range 3 {
			s.seats[fmt.Sprintf("A-%d-%d", row+1, n+1)] = "free"
		}
	}
	mux := http.NewServeMux()
	s.files(mux)
	const base = "/v1/events/demo"
	mux.HandleFunc("GET "+base, s.getEvent)
	mux.HandleFunc("POST "+base+"/entries", s.postEntry)
	mux.HandleFunc("GET "+base+"/challenge", s.getChallenge)
	mux.HandleFunc("GET "+base+"/entries/me", s.getMe)
	mux.HandleFunc("DELETE "+base+"/entries/me", s.deleteMe)
	mux.HandleFunc("GET "+base+"/live", s.live)
	mux.HandleFunc("GET "+base+"/seats", s.getSeats)
	mux.HandleFunc("POST "+base+"/reservations", s.postReservation)
	mux.HandleFunc("GET "+base+"/reservations/{id}", s.getReservation)
	mux.HandleFunc("POST "+base+"/reservations/{id}/payment", s.postPayment)
	mux.HandleFunc("POST "+base+"/tokens", s.postToken)
	mux.HandleFunc("GET "+base+"/draw/me", s.getProof)
	for _, what := range []string{"GET ", "POST "} {
		mux.HandleFunc(what+base+"/party", s.party)
	}
	mux.HandleFunc("POST "+base+"/party/members", s.party)
	mux.HandleFunc("PUT "+base+"/party/buyer", s.party)
	mux.HandleFunc("DELETE "+base+"/party/members/me", s.party)
	s.operations(mux)
	srv := httptest.NewServer(s.record(mux))
	s.address = srv.URL
	t.Cleanup(func() {
		s.hangUp()
		srv.CloseClientConnections()
		srv.Close()
	})
	return s
}

// files serves the pages, and the tests' own scripts under /test/. Each page first
// loads one of those, which keeps the faults.
func (s *service) files(mux *http.ServeMux) {
	static := pages.Files()
	for pattern, name := range map[string]string{
		"GET /{$}": "index.html", "GET /e/{event}": "index.html", "GET /e/{event}/shop": "shop.html", "GET /console": "console.html",
		"GET /late/": "index.html", // with a device clock that is years behind
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			html := read(s.t, name)
			probe := `<script src="/test/faults.js"></script>`
			if strings.HasPrefix(r.URL.Path, "/late/") {
				probe += `<script src="/test/late.js"></script>`
			}
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.Header().Set("Content-Security-Policy", csp)
			_, _ = w.Write([]byte(strings.Replace(html, "<head>", "<head>"+probe, 1))) // the tab may be gone
		})
	}
	mux.Handle("GET /assets/", http.FileServerFS(static))
	mux.HandleFunc("GET /assets/altcha/", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		without := s.noWidget
		s.mu.Unlock()
		if without {
			http.NotFound(w, r)
			return
		}
		http.FileServerFS(static).ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /test/{name}", func(w http.ResponseWriter, r *http.Request) {
		switch name := r.PathValue("name"); name {
		case "blank.html":
			w.Header().Set("Content-Type", "text/html")
		case "faults.js":
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = w.Write([]byte(`window.faults = [];
				addEventListener('error', (e) => faults.push(String(e.message)));
				addEventListener('unhandledrejection', (e) => faults.push('unhandled: ' + e.reason));
				addEventListener('securitypolicyviolation', (e) => faults.push('policy: ' + e.violatedDirective + ' ' + e.blockedURI));`)) // the tab may be gone
		case "late.js":
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = w.Write([]byte(`const real = Date.now; Date.now = () => real() - 3 * 365 * 86400e3;`)) // the tab may be gone
		default:
			http.ServeFile(w, r, filepath.Join("testdata", filepath.Base(name)))
		}
	})
}

func (s *service) record(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body strings.Builder
		if r.Method == http.MethodPost || r.Method == http.MethodPatch {
			_, _ = bufio.NewReader(r.Body).WriteTo(&body) // a body cut short is the test's own fault
			r.Body = io.NopCloser(strings.NewReader(body.String()))
		}
		s.mu.Lock()
		s.calls = append(s.calls, call{r.Method, r.URL.Path, r.URL.RawQuery, time.Now(), r.Header.Clone(), body.String()})
		what := r.Method + " " + strings.TrimPrefix(r.URL.Path, "/v1/events/demo")
		var no refusal
		if queue := s.refuse[what]; len(queue) > 0 {
			no, s.refuse[what] = queue[0], queue[1:]
		}
		s.mu.Unlock()
		if no.status != 0 {
			body := doc{"title": "no", "status": no.status, "code": no.code, "detail": "as the test wants it"}
			if no.retry > 0 {
				w.Header().Set("Retry-After", fmt.Sprint(no.retry))
				body["retry_after_ms"] = no.retry * 1000
			}
			s.answer(w, no.status, body)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *service) answer(w http.ResponseWriter, status int, body doc) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the tab may be gone
}

// set changes what the service says from now on.
func (s *service) set(change func(s *service)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// seen are the calls so far that match.
func (s *service) seen(method, path string) []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []call
	for _, c := range s.calls {
		if c.Method == method && c.Path == "/v1/events/demo"+path {
			found = append(found, c)
		}
	}
	return found
}

func (s *service) stamp(in time.Duration) string {
	return time.Now().Add(s.ahead + in).UTC().Format("2006-01-02T15:04:05.000Z")
}

func (s *service) getEvent(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	body := maps.Clone(s.event)
	body["now"] = s.stamp(0)
	s.mu.Unlock()
	s.answer(w, http.StatusOK, body)
}

func (s *service) postEntry(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	status := http.StatusOK
	if s.challenges != nil {
		if code := s.challenged(r); code != "" {
			s.mu.Unlock()
			s.answer(w, http.StatusForbidden, doc{"status": 403, "code": code, "challenge": "/v1/events/demo/challenge"})
			return
		}
	}
	var said doc
	_ = json.NewDecoder(r.Body).Decode(&said) // none is said
	if s.eligible != nil {
		if why := s.eligible(said); why != nil {
			s.mu.Unlock()
			why["status"], why["code"] = http.StatusForbidden, "not_eligible"
			s.answer(w, http.StatusForbidden, why)
			return
		}
	}
	if s.place == nil || r.Header.Get("Authorization") != "Bearer "+s.token {
		s.joined++
		s.token = fmt.Sprintf("place-token-%d", s.joined)
		s.place = doc{"entry_id": "ann", "state": "waiting", "position": 50, "ahead": 49, "waiting": 120}
		if s.newcomer != nil {
			s.place = maps.Clone(s.newcomer)
		}
		if said["lane"] != nil {
			s.place["lane"] = said["lane"]
		}
		status = http.StatusCreated
	}
	if s.place["status"] != nil {
		status = numberStatus(s.place)
	}
	body := maps.Clone(s.place)
	body["place_token"] = s.token
	s.mu.Unlock()
	s.answer(w, status, body)
}

func (s *service) getMe(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	known := s.place != nil && (s.anyone || r.Header.Get("Authorization") == "Bearer "+s.token)
	body := maps.Clone(s.place)
	s.mu.Unlock()
	if !known {
		s.answer(w, http.StatusUnauthorized, doc{"status": 401, "code": "token_required"})
		return
	}
	w.Header().Set("Retry-After", "2")
	tag := fmt.Sprintf(`W/"%v.%v.%v"`, body["state"], body["position"], body["status"])
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		s.set(func(s *service) { s.unchanged++ })
		w.WriteHeader(http.StatusNotModified)
		return
	}
	status := http.StatusOK
	if body["status"] != nil {
		status = numberStatus(body)
	}
	s.answer(w, status, body)
}

func (s *service) deleteMe(w http.ResponseWriter, _ *http.Request) {
	s.set(func(s *service) { s.place = nil })
	w.WriteHeader(http.StatusNoContent)
}

// admit lets the one person in.
func (s *service) admit(redirect string) {
	s.set(func(s *service) {
		s.place = doc{
			"entry_id": "ann", "state": "admitted", "entry_token": "entry-token-1",
			"expires_at": s.stamp(5 * time.Minute), "redirect_url": redirect,
		}
		s.say(s.first())
	})
}

// patch takes an operator's changes.
func (s *service) patch(r *http.Request) {
	var change doc
	if json.NewDecoder(r.Body).Decode(&change) != nil {
		return // the test sees that nothing changed
	}
	s.set(func(s *service) { maps.Copy(s.event, change) })
}
