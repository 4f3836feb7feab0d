package waitroom

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

var states = []State{Scheduled, Lobby, Open, Paused, Draining, Closed}

// DefaultSettings are those of an event about which nothing is said but its id.
func DefaultSettings(id EventID) Settings {
	s := Settings{ID: id, RatePerS: 10}
	s.Load = LoadSettings{FloorPerS: 1, Steps: []LoadStep{{At: 0.8, RatePerS: 200}, {At: 0.9, RatePerS: 0}}}
	s.Tickets.PriceCents = 5000
	return s.Defaults()
}

// Defaults fills what is empty with its default. Where zero says something (no
// rate, no floor, no steps, no price), it stays; DefaultSettings has those defaults
// too.
func (s Settings) Defaults() Settings {
	s.Name = cmp.Or(s.Name, string(s.ID))
	s.Mode = cmp.Or(s.Mode, ModeQueue)
	s.Order = cmp.Or(s.Order, "fifo")
	s.Identity = cmp.Or(s.Identity, "anonymous")
	s.OnSoldOut = cmp.Or(s.OnSoldOut, keepSoldOut)
	s.Fail = cmp.Or(s.Fail, failClosed)
	s.ClaimTTL = cmp.Or(s.ClaimTTL, Duration(5*time.Minute))
	s.SessionTTL = cmp.Or(s.SessionTTL, Duration(10*time.Minute))
	s.Session = cmp.Or(s.Session, "fixed")
	s.Grace = cmp.Or(s.Grace, Duration(2*time.Minute))
	s.GraceMobile = cmp.Or(s.GraceMobile, Duration(10*time.Minute))
	s.Load.Law = cmp.Or(s.Load.Law, "steps")
	s.Load.Target = cmp.Or(s.Load.Target, 0.75)
	s.Load.StaleAfter = cmp.Or(s.Load.StaleAfter, Duration(3*time.Second))
	s.Tickets.Kind = cmp.Or(s.Tickets.Kind, "none")
	s.Tickets.PerUser = cmp.Or(s.Tickets.PerUser, 2)
	s.Tickets.HoldTTL = cmp.Or(s.Tickets.HoldTTL, Duration(3*time.Minute))
	s.Tickets.Locking = cmp.Or(s.Tickets.Locking, "optimistic")
	s.Tickets.OnBreakerOpen = cmp.Or(s.Tickets.OnBreakerOpen, "wait")
	s.Tickets.Currency = cmp.Or(s.Tickets.Currency, "EUR")
	if s.Starts.On() {
		s.Starts.Keep = cmp.Or(s.Starts.Keep, Duration(time.Minute))
	}
	s.Limits = s.Limits.Defaults()
	s.Challenge = s.Challenge.Defaults()
	s.Quota = s.Quota.Defaults()
	if s.Beacon.URL != "" {
		s.Beacon.Wait = cmp.Or(s.Beacon.Wait, Duration(30*time.Second))
	}
	return s
}

// Defaults fills what is empty with its default.
func (q QuotaSettings) Defaults() QuotaSettings {
	q.Factor = cmp.Or(q.Factor, 1.2)
	q.Returns = cmp.Or(q.Returns, returnsUnused)
	return q
}

// Tokens is the quota: how many tokens of an event with mode instant are used or
// held at any time, at most.
func (s Settings) Tokens() int64 {
	const mend = 1e-9 // 200 × 1.2 is a little more than 240
	return int64(math.Ceil(float64(s.stock())*s.Quota.Factor - mend))
}

func (s Settings) beaconFaults(d *decoder) {
	const longest = Duration(10 * time.Minute)
	b := s.Beacon
	if b == (BeaconSettings{}) {
		return
	}
	if s.Order != OrderDraw {
		d.fault("beacon", "is for order draw")
	}
	if u, err := url.Parse(b.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		d.fault("beacon.url", "must be the http or https address of a drand network")
	}
	if b.Wait != 0 && (b.Wait < Duration(time.Second) || b.Wait > longest) {
		d.fault("beacon.wait", "must be 1s to 10m")
	}
}

// lobbyFault refuses a draw without a lobby: an event whose order is drawn, and to
// which nobody could come before it opens.
func (s Settings) lobbyFault(state State) error {
	if s.Order != OrderDraw || s.LobbyOpensAt != nil || state == Lobby || state == Scheduled {
		return nil
	}
	return &InvalidError{Fields: []FieldError{{
		Field: "lobby_opens_at", Detail: "order draw needs a lobby: say when it opens, or make the event with state lobby or scheduled",
	}}}
}

// stock is how many pieces are for sale.
func (s Settings) stock() int64 {
	if s.Tickets.Stock > 0 { // of kind stock, or of places that are imported
		return int64(s.Tickets.Stock)
	}
	n := int64(0)
	for _, it := range s.Tickets.Items {
		n += int64(it.Capacity)
	}
	for _, sec := range s.Tickets.Sections {
		n += int64(sec.Rows) * int64(sec.SeatsPerRow)
	}
	return n
}

// Validate is nil, or an *InvalidError that names every wrong setting.
func (s Settings) Validate() error {
	if f := s.faults(); len(f) > 0 {
		return &InvalidError{Fields: f}
	}
	return nil
}

var (
	eventIDs   = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)
	sectionIDs = regexp.MustCompile(`^[A-Za-z0-9]{1,16}$`)
	itemIDs    = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,64}$`)
	currencies = regexp.MustCompile(`^[A-Z]{3}$`)
)

// ModeQueue is the mode of an event that has a line.
const ModeQueue = "queue"

// ModeInstant is the mode of an event that has no line: whoever asks has a token or
// a refusal at once.
const ModeInstant = "instant"

// ModeBuffered is the mode of an event that gives each person a number, later and in
// the order of their asking.
const ModeBuffered = "buffered"

// CloseSoldOut is the on_sold_out of an event that closes when its last piece is paid.
const CloseSoldOut = "close"

// identityJWT is the identity of an event whose people the site knows already.
const identityJWT = "jwt"

// OrderDraw is the order of an event whose lobby is ordered by lot.
const OrderDraw = "draw"

const (
	returnsUnused = "unused"
	keepSoldOut   = "keep"

	sessionSliding = "sliding"

	failClosed = "closed"
	failOpen   = "open"
)

const (
	mostRate  = 100_000
	mostBurst = 25_000 // half of what the ticks of its one second can let in
	mostSeats = 200_000
	mostTTL   = 7 * 24 * time.Hour
)

func (s Settings) faults() []FieldError {
	var d decoder
	if !eventIDs.MatchString(string(s.ID)) {
		d.fault("id", "must be 1 to 64 characters of a-z, 0-9 and -")
	}
	d.text("name", s.Name, 200)
	d.text("message", s.Message, 2000)
	d.choice("mode", s.Mode, []string{ModeQueue, ModeInstant, ModeBuffered})
	d.choice("order", s.Order, []string{"fifo", OrderDraw})
	s.beaconFaults(&d)
	s.partyFaults(&d)
	d.choice("identity", s.Identity, []string{"anonymous", identityJWT})
	d.choice("session", s.Session, []string{"fixed", sessionSliding})
	d.choice("fail", s.Fail, []string{failClosed, failOpen})
	d.choice("on_sold_out", s.OnSoldOut, []string{keepSoldOut, CloseSoldOut})
	if s.OnSoldOut == CloseSoldOut && s.Tickets.Kind == "none" {
		d.fault("on_sold_out", "close needs something that is sold (tickets.kind)")
	}
	d.number("rate_per_s", s.RatePerS, mostRate)
	d.number("burst", float64(s.Burst), mostBurst)
	d.number("max_active", float64(s.MaxActive), 100_000_000)
	d.ttl("claim_ttl", s.ClaimTTL)
	d.ttl("session_ttl", s.SessionTTL)
	d.ttl("grace", s.Grace)
	d.ttl("grace_mobile", s.GraceMobile)
	s.quotaFaults(&d)
	d.order(s.LobbyOpensAt, s.OpensAt, s.ClosesAt)
	s.groupFaults(&d)
	s.laneFaults(&d)
	if s.RedirectURL != "" {
		u, err := url.Parse(s.RedirectURL)
		web := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil
		local := err == nil && u.Scheme == "" && u.Host == "" && strings.HasPrefix(s.RedirectURL, "/") && !strings.ContainsRune(s.RedirectURL, '\\')
		if !web && !local || len(s.RedirectURL) > 2000 {
			d.fault("redirect_url", "must be an http or https address, or a path on this host")
		}
	}
	s.Load.faults(&d)
	s.Tickets.faults(&d)
	s.Limits.faults(&d)
	s.Challenge.faults(&d)
	return d.faults
}

// quotaFaults refuses a quota that is none, and an instant event without one.
func (s Settings) quotaFaults(d *decoder) {
	const mostFactor = 10
	if !(s.Quota.Factor > 0 && s.Quota.Factor <= mostFactor) { // also what is no number
		d.fault("quota.factor", "must be above 0 and at most %d", mostFactor)
	}
	d.choice("quota.returns", s.Quota.Returns, []string{returnsUnused, "never"})
	if s.Mode == ModeInstant && s.stock() == 0 {
		d.fault("tickets.kind", "mode instant needs a stock to make its quota of")
	}
	if s.Mode != ModeBuffered && len(s.Winners) > 0 {
		d.fault("winners", "are for mode buffered")
	}
	if s.Mode != ModeBuffered && s.AtOnce {
		d.fault("at_once", "is for mode buffered")
	}
	for i, n := range s.Winners {
		at := fmt.Sprintf("winners[%d]", i)
		if n < 1 || n > 1_000_000_000 {
			d.fault(at, "must be 1 to 1000000000")
		}
		if slices.Contains(s.Winners[:i], n) {
			d.fault(at, "is there twice")
		}
	}
	if s.Mode != ModeQueue && s.PassThrough {
		d.fault("pass_through", "is for mode queue: no other has a line to pass")
	}
	s.startFaults(d)
	if s.Mode != ModeInstant && s.Durable {
		d.fault("durable", "is for mode instant")
	}
}

func (s Settings) startFaults(d *decoder) {
	st := s.Starts
	d.number("starts.usage", st.Usage, 1)
	d.number("starts.arrivals_per_s", st.ArrivalsPerS, mostRate)
	if !st.On() {
		return
	}
	d.ttl("starts.keep", st.Keep)
	if s.Mode != ModeQueue {
		d.fault("starts", "is for mode queue: no other has a line to pass")
	}
	if s.Order == OrderDraw {
		d.fault("starts", "is for order fifo: a draw is for those who wait")
	}
}

func (s LoadSettings) faults(d *decoder) {
	d.choice("load.law", s.Law, []string{"steps", "target", "none"})
	if !(s.Target >= 0.05 && s.Target <= 0.95) {
		d.fault("load.target", "must be 0.05 to 0.95")
	}
	d.number("load.floor_per_s", s.FloorPerS, mostRate)
	d.ttl("load.stale_after", s.StaleAfter)
	for i, step := range s.Steps {
		at := fmt.Sprintf("load.steps[%d]", i)
		if !(step.At > 0 && step.At <= 1) {
			d.fault(at+".at", "must be above 0 and at most 1")
		}
		d.number(at+".rate_per_s", step.RatePerS, mostRate)
		if i > 0 && step.At <= s.Steps[i-1].At {
			d.fault(at+".at", "must be above the one before it")
		}
	}
}

func (s TicketSettings) faults(d *decoder) {
	d.choice("tickets.kind", s.Kind, []string{"none", "stock", "seats", "slots", "courses"})
	d.choice("tickets.locking", s.Locking, []string{"optimistic", "pessimistic"})
	d.choice("tickets.on_breaker_open", s.OnBreakerOpen, []string{"wait", "cancel"})
	d.ttl("tickets.hold_ttl", s.HoldTTL)
	if s.PerUser < 1 || s.PerUser > 100 {
		d.fault("tickets.per_user", "must be 1 to 100")
	}
	if s.PriceCents < 0 || s.PriceCents > 1e12 {
		d.fault("tickets.price_cents", "must be 0 to 1000000000000")
	}
	if !currencies.MatchString(s.Currency) {
		d.fault("tickets.currency", "must be three capital letters")
	}
	if s.Kind == "stock" && s.Stock < 1 || s.Stock < 0 || s.Stock > 100_000_000 {
		d.fault("tickets.stock", "must be 1 to 100000000")
	}
	if s.Kind == "none" && s.Stock != 0 {
		d.fault("tickets.stock", "needs something that is sold (tickets.kind)")
	}
	if s.Kind != "seats" && len(s.Sections) > 0 {
		d.fault("tickets.sections", "are for kind seats")
	}
	if s.Kind == "seats" {
		sectionFaults(d, s.Sections)
	}
	if s.Kind != "slots" && s.Kind != "courses" && len(s.Items) > 0 {
		d.fault("tickets.items", "are for kind slots or courses")
	}
	for i, it := range s.Items {
		at := fmt.Sprintf("tickets.items[%d]", i)
		if !itemIDs.MatchString(it.ID) {
			d.fault(at+".id", "must be 1 to 64 letters, digits, '-', '_', '.' or ':'")
		}
		d.text(at+".name", it.Name, 200)
	}
}

func sectionFaults(d *decoder, sections []SectionSettings) {
	seen := make(map[string]bool)
	seats := 0
	for i, sec := range sections {
		at := fmt.Sprintf("tickets.sections[%d]", i)
		if !sectionIDs.MatchString(sec.ID) {
			d.fault(at+".id", "must be 1 to 16 letters and digits")
		}
		if seen[sec.ID] {
			d.fault(at+".id", "is there twice")
		}
		seen[sec.ID] = true
		d.text(at+".name", sec.Name, 200)
		d.number(at+".price_cents", float64(sec.PriceCents), 1e12)
		if sec.Rows < 1 || sec.Rows > 1000 {
			d.fault(at+".rows", "must be 1 to 1000")
		}
		if sec.SeatsPerRow < 1 || sec.SeatsPerRow > 10_000 {
			d.fault(at+".seats_per_row", "must be 1 to 10000")
		}
		if seats <= mostSeats {
			seats += max(0, min(sec.Rows, 1000)) * max(0, min(sec.SeatsPerRow, 10_000))
		}
	}
	if seats > mostSeats {
		d.fault("tickets.sections", "must have at most %d seats in all", mostSeats)
	}
}

func (d *decoder) text(field, s string, most int) {
	if len(s) > most || !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
		d.fault(field, "must be text of at most %d bytes", most)
	}
}

func (d *decoder) choice(field, v string, from []string) {
	if !slices.Contains(from, v) {
		d.fault(field, "must be %s", strings.Join(from, " or "))
	}
}

func (d *decoder) number(field string, v, most float64) {
	if math.IsNaN(v) || v < 0 || v > most {
		d.fault(field, "must be 0 to %.0f", most)
	}
}

func (d *decoder) ttl(field string, v Duration) {
	if t := time.Duration(v); t < time.Second || t > mostTTL {
		d.fault(field, "must be 1s to %s", Duration(mostTTL))
	}
}

// order refuses moments that are out of order.
func (d *decoder) order(lobby, opens, closes *time.Time) {
	if lobby != nil && opens == nil {
		d.fault("lobby_opens_at", "needs opens_at")
	}
	if lobby != nil && opens != nil && lobby.After(*opens) {
		d.fault("lobby_opens_at", "must not be after opens_at")
	}
	if opens != nil && closes != nil && !closes.After(*opens) {
		d.fault("closes_at", "must be after opens_at")
	}
}
