package pages_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/web/browsertest"
)

// inside is a visitor in the shop.
func inside(t *testing.T, s *service) browsertest.Page {
	t.Helper()
	p := joined(t, s)
	s.admit("/e/demo/shop")
	p.Panel("turn")
	p.Click("enter")
	p.Until("location.pathname === '/e/demo/shop'")
	p.Panel("choose")
	p.Reads("link", "Live")
	return p
}

// The hall can be walked by keyboard, and has one stop for the tab key.
func TestSeatsByKeyboard(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p := inside(t, s)
	require.Equal(t, 1, browsertest.Value[int](p, `document.querySelectorAll('#sections .seat[tabindex="0"]').length`))
	p.Run(`document.querySelector('#sections .seat[tabindex="0"]').focus()`)
	require.Equal(t, "A-1-1", p.Focused())
	for key, want := range map[string]string{"ArrowUp": "A-1-1", "ArrowLeft": "A-1-1"} {
		p.Press(key)
		require.Equal(t, want, p.Focused(), "the edge holds")
	}
	for _, step := range [][2]string{{"ArrowRight", "A-1-2"}, {"ArrowDown", "A-2-2"}, {"End", "A-2-3"}, {"Home", "A-2-1"}} {
		p.Press(step[0])
		require.Equal(t, step[1], p.Focused(), step[0])
	}
	require.Equal(t, "Stalls, row 2, seat 1, €75, free", browsertest.Value[string](p, "document.activeElement.getAttribute('aria-label')"))
	p.Run("document.activeElement.click()")
	require.Equal(t, "true", browsertest.Value[string](p, "document.activeElement.getAttribute('aria-selected')"))
	p.Reads("sum", "€75")
	p.NoFaults()
}

// Promise 7: one key over all retries of one wish; another wish has another key.
func TestPromise7OneKeyOverAllRetries(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p := inside(t, s)
	s.set(func(s *service) {
		s.refuse["POST /reservations"] = []refusal{{503, "unavailable", 1}, {409, "contended", 1}, {409, "seat_taken", 0}}
	})
	p.Run(`document.querySelector('[data-id="A-1-1"]').click(); document.querySelector('[data-id="A-1-2"]').click()`)
	p.Reads("sum", "€150")
	s.set(func(s *service) { s.seats["A-1-1"], s.version = "sold", 1 })
	p.Click("reserve")
	p.Until("document.getElementById('note').textContent.startsWith('Just taken: A-1-1.')")
	p.Reads("sum", "€75")
	require.Equal(t, "sold", browsertest.Value[string](p, `document.querySelector('[data-id="A-1-1"]').dataset.s`))
	p.Click("reserve")
	p.Panel("hold")
	tries := s.seen(http.MethodPost, "/reservations")
	require.Len(t, tries, 4)
	key := func(i int) string { return tries[i].Header.Get("Idempotency-Key") }
	require.NotEmpty(t, key(0))
	require.Equal(t, key(0), key(1), "a retry kept its key")
	require.Equal(t, key(0), key(2), "a retry kept its key")
	require.NotEqual(t, key(0), key(3), "a refused wish is over")
	require.Equal(t, tries[0].Body, tries[1].Body)
	require.Equal(t, "entry-token-1", tries[0].Header.Get("X-Entry-Token"))
	require.JSONEq(t, `{"seats":["A-1-2"]}`, tries[3].Body)
	p.NoFaults()
}

// Promise 12: a socket that says what changes on the map spares the page the asking;
// a choice that went is named, and a map that is too old is read once.
func TestPromise12TheMapIsTold(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p := inside(t, s)
	said := func() (all []string) {
		s.set(func(s *service) {
			for _, h := range s.hellos {
				if strings.HasPrefix(h, "seats") {
					all = append(all, h)
				}
			}
		})
		return all
	}
	p.Until(`document.querySelectorAll('#sections .seat').length === 6`)
	p.Run(`document.querySelector('[data-id="A-1-1"]').click(); document.querySelector('[data-id="A-1-2"]').click()`)
	p.Reads("sum", "€150")
	s.push(doc{"type": "seats", "version": "7", "seats_left": 4, "seats": []doc{
		{"id": "A-1-1", "status": "sold", "version": 5}, {"id": "A-2-1", "status": "held", "version": 3}, {"id": "A-2-2", "status": "sold", "version": 0},
	}})
	p.Until("document.getElementById('note').textContent.startsWith('Just taken: A-1-1.')")
	p.Reads("sum", "€75")
	state := func(id string) string {
		return browsertest.Value[string](p, `document.querySelector('[data-id="`+id+`"]').dataset.s`)
	}
	require.Equal(t, []string{"sold", "chosen", "held", "free"}, []string{state("A-1-1"), state("A-1-2"), state("A-2-1"), state("A-2-2")},
		"what is older than the map does not count")
	require.Equal(t, []string{`seats W/"0"`}, said(), "with the version of the map, once")
	maps := len(s.seen(http.MethodGet, "/seats"))
	s.set(func(s *service) { s.seats["A-2-3"], s.version = "sold", 8 })
	s.push(doc{"type": "seats", "seats_left": 3, "reload": true})
	p.Until(`document.querySelector('[data-id="A-2-3"]').dataset.s === 'sold'`)
	asked := s.seen(http.MethodGet, "/seats")
	require.Len(t, asked, maps+1)
	require.Equal(t, `W/"7"`, asked[maps].Header.Get("If-None-Match"), "the version that it was told")
	require.Equal(t, "sold", state("A-1-1"), "a map of an instance that is behind takes nothing back")
	p.Click("best")
	p.Panel("hold")
	require.Equal(t, []string{`seats W/"0"`, "seats stop"}, said()[:2], "nothing is told to who does not choose")
	p.NoFaults()
}

// The outcome of a payment is pushed, and found by asking where nothing is pushed.
func TestPaymentOutcome(t *testing.T) {
	t.Parallel()
	pay := func(t *testing.T) (*service, browsertest.Page) {
		t.Helper()
		s := newService(t)
		p := inside(t, s)
		p.Click("best")
		p.Panel("hold")
		p.Reads("hold-sum", "€150")
		p.Open(s.address + "/e/demo/shop") // a refresh loses nothing
		p.Panel("hold")
		p.Reads("link", "Live")
		p.Click("pay")
		p.Panel("pay")
		return s, p
	}
	t.Run("pushed", func(t *testing.T) {
		t.Parallel()
		s, p := pay(t)
		s.set(func(s *service) { s.refuse["GET /reservations/order-1"] = make([]refusal, 0) })
		s.push(doc{"type": "reservation", "reservation_id": "order-1", "status": "paid"})
		p.Panel("paid")
		require.Equal(t, "order-1", p.Text("paid-order"))
		p.NoFaults()
	})
	t.Run("asked", func(t *testing.T) {
		t.Parallel()
		s, p := pay(t)
		s.set(func(s *service) { s.sale["status"], s.sale["reason"] = "payment_failed", "declined" })
		p.Panel("lost")
		require.Equal(t, "The payment was declined", p.Text("lost-title"))
		p.Click("lost-again")
		p.Panel("choose")
		p.NoFaults()
	})
}

// The shop is shut for whoever has no turn.
func TestShopNeedsATurn(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p := browsertest.NewVisitor(t)
	p.Open(s.address + "/e/demo/shop")
	p.Panel("wait")
	require.Equal(t, "/e/demo", browsertest.Value[string](p, "new URL(document.getElementById('to-wait').href).pathname"))
	require.Empty(t, s.seen(http.MethodPost, "/reservations"))
	p.NoFaults()
}
