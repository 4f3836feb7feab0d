package waitroom

import "time"

// State is where an event is in its life.
type State string

// The states of an event.
const (
	Scheduled State = "scheduled" // nobody may join yet
	Lobby     State = "lobby"     // people may join, nobody is let in
	Open      State = "open"      // people join and are let in
	Paused    State = "paused"    // joining goes on, nobody is let in
	Draining  State = "draining"  // nobody joins, the line empties
	Closed    State = "closed"    // over
)

// Duration is a time.Duration that JSON and YAML write in Go form ("5m", "750ms").
type Duration time.Duration

// Settings are what an operator decides about an event. The zero value of a field
// means its default, which Defaults fills in. The JSON names are the names in
// YAML files and in the ops API.
type Settings struct {
	ID   EventID `json:"id"`
	Name string  `json:"name"`
	// Mode is how people come in: queue (default), or instant, where whoever asks has
	// a token or a refusal at once.
	Mode string `json:"mode"`
	// Order is how the line is ordered: fifo (default), or draw, where whoever joined
	// before the opening is ordered by lot, and latecomers stand behind.
	Order string `json:"order"`
	// Beacon is public randomness that a draw mixes in.
	Beacon BeaconSettings `json:"beacon,omitzero"`
	// Party lets friends share one place, and so one entry in the draw.
	Party PartySettings `json:"party,omitzero"`

	LobbyOpensAt *time.Time `json:"lobby_opens_at,omitempty"`
	OpensAt      *time.Time `json:"opens_at,omitempty"`
	ClosesAt     *time.Time `json:"closes_at,omitempty"`

	// Identity is how a person is known: anonymous (default) or jwt.
	Identity string `json:"identity"`
	// RatePerS is the most people admitted in any second. Default 10; 0 admits nobody.
	RatePerS float64 `json:"rate_per_s"`
	// Starts, if it is set, lets everybody in as PassThrough does until the site's load or
	// the arrivals reach a threshold; from then on people wait, until it is calm again.
	Starts StartSettings `json:"starts,omitzero"`
	// Burst is how many more may come in at once at opens_at, never after a pause.
	Burst int `json:"burst"`
	// PassThrough lets everybody in who joins, at once: rate_per_s and the load bind
	// nobody, max_active does, and everybody is counted and in the admission log. For
	// mode queue. Default false.
	PassThrough bool `json:"pass_through"`
	// MaxActive is the most people inside at any time; 0 is no limit.
	MaxActive int `json:"max_active"`
	// ClaimTTL is the time to come in after being admitted. Default 5m.
	ClaimTTL Duration `json:"claim_ttl"`
	// SessionTTL is the time inside. Default 10m.
	SessionTTL Duration `json:"session_ttl"`
	// Session is fixed (default) or sliding: whether each pass of the gate renews it.
	Session string `json:"session"`
	// Fail says what the gate does while the store is away: closed (default), nobody
	// passes; or open, whoever was let in before it went passes until their time ends,
	// though nobody can look whether they were revoked since (View.Enter).
	Fail string `json:"fail"`
	// Grace is how long somebody may be away from the page. Default 2m.
	Grace Duration `json:"grace"`
	// GraceMobile is the grace for phones, whose sockets drop in the pocket. Default 10m.
	GraceMobile Duration `json:"grace_mobile"`

	// Lanes are lines of their own, each with its rate. Without any, there is one line.
	// Where there are lanes, each group names the one of its people; without groups
	// everybody chooses.
	Lanes []LaneSettings `json:"lanes,omitempty"`
	// Groups are the people who may join, each in their window. Without any, whoever
	// comes may, as long as the event takes people.
	Groups []GroupSettings `json:"groups,omitempty"`

	// Quota is how many tokens an event with mode instant gives out.
	Quota QuotaSettings `json:"quota"`
	// Winners are the numbers that win, in mode buffered.
	Winners []int64 `json:"winners,omitempty"`
	// AtOnce makes a call of mode buffered wait until the number is known, where that
	// is within two seconds. The numbers are the same. Default false.
	AtOnce bool `json:"at_once"`
	// Durable makes an answer of mode instant wait for a replica of the store, for
	// the case that the store fails over to it. Default false.
	Durable bool `json:"durable"`

	// OnSoldOut says what becomes of the event when its last piece is paid: keep
	// (default) keeps the line for returns, close closes the event.
	OnSoldOut string `json:"on_sold_out"`

	Load    LoadSettings   `json:"load"`
	Tickets TicketSettings `json:"tickets"`
	Limits  LimitSettings  `json:"limits"`
	// Challenge is what strangers must solve before they join.
	Challenge ChallengeSettings `json:"challenge"`

	// RedirectURL is where an admitted person goes; empty is the event's own shop page.
	RedirectURL string `json:"redirect_url,omitempty"`
	// Message is shown to everyone who waits.
	Message string `json:"message,omitempty"`
}

// StartSettings say when waiting starts by itself. The zero value says that people
// always wait.
type StartSettings struct {
	// Usage is the site's load, 0 to 1, from which on people wait; so they do while it
	// is not known. 0: the load starts nothing.
	Usage float64 `json:"usage,omitempty"`
	// ArrivalsPerS is how many joining in a second make people wait. 0: no number does.
	ArrivalsPerS float64 `json:"arrivals_per_s,omitempty"`
	// Keep is how long all must be calm before everybody passes again. Default 1m.
	Keep Duration `json:"keep,omitempty"`
}

// On tells whether waiting starts by itself.
func (s StartSettings) On() bool { return s.Usage > 0 || s.ArrivalsPerS > 0 }

// LoadSettings say how the site's load bounds the rate.
type LoadSettings struct {
	// Law is steps (default), target or none.
	Law string `json:"law"`
	// Steps lower the rate from a usage on. Default: the two of system A,
	// {0.8, 200} and {0.9, 0}.
	Steps []LoadStep `json:"steps,omitempty"`
	// Target is the usage (0 to 1) that law target keeps. Default 0.75.
	Target float64 `json:"target"`
	// FloorPerS is the rate while the load is not known. Default 1.
	FloorPerS float64 `json:"floor_per_s"`
	// StaleAfter is the age from which a reading counts as unknown. Default 3s.
	StaleAfter Duration `json:"stale_after"`
}

// BeaconSettings say which public randomness a draw mixes in.
type BeaconSettings struct {
	// URL is a drand network's address, such as https://api.drand.sh/ and the chain's
	// hash; empty: the commitment alone binds the draw.
	URL string `json:"url,omitempty"`
	// Wait is how long the opening waits for the round. Default 30s; after it the draw
	// goes by the commitment alone, and says so.
	Wait Duration `json:"wait,omitempty"`
}

// PartySettings say how many friends may share one place of a draw.
type PartySettings struct {
	// Size is the most members of a party, 2 to 8. 0: everybody stands alone.
	Size int `json:"size"`
}

// QuotaSettings say how many tokens there are.
type QuotaSettings struct {
	// Factor makes the quota out of the stock: stock × factor, rounded up. Default 1.2,
	// since some never buy; at most 10.
	Factor float64 `json:"factor"`
	// Returns says which tokens go back to the quota: unused (default), those that
	// expire, are given back or revoked before anyone has entered with them; or never.
	Returns string `json:"returns"`
}

// LoadStep bounds the rate from a usage (0 to 1) on.
type LoadStep struct {
	At       float64 `json:"at"`
	RatePerS float64 `json:"rate_per_s"`
}

// TicketSettings say what the event sells.
type TicketSettings struct {
	// Kind is none (default), stock, seats, slots or courses.
	Kind string `json:"kind"`
	// Stock is the number of tickets for kind stock. For the others it is the number of
	// places that are imported, which the quota of mode instant is made of; an import
	// sets it.
	Stock int `json:"stock,omitempty"`
	// Sections are the seat map for kind seats. Without any, the map is imported.
	Sections []SectionSettings `json:"sections,omitempty"`
	// Items are the slots or courses of those kinds. Without any, they are imported.
	Items []ItemSettings `json:"items,omitempty"`
	// PerUser is the most seats one person may hold or own. Default 2.
	PerUser int `json:"per_user"`
	// HoldTTL is how long a reservation waits for its payment. Default 3m.
	HoldTTL Duration `json:"hold_ttl"`
	// Locking is optimistic (default) or pessimistic.
	Locking string `json:"locking"`
	// OnBreakerOpen is wait (default) or cancel.
	OnBreakerOpen string `json:"on_breaker_open"`
	// PriceCents is the price of one ticket in cents; 0 is for nothing. Default 5000.
	PriceCents int64 `json:"price_cents"`
	// Currency is an ISO 4217 code. Default EUR.
	Currency string `json:"currency"`
}

// SectionSettings is a block of seats: rows times seats in a row. Seat ids are
// "{section}-{row}-{number}", or "{section}-{number}" with one row.
type SectionSettings struct {
	ID          string `json:"id"`
	Name        string `json:"name,omitempty"`
	Rows        int    `json:"rows"`
	SeatsPerRow int    `json:"seats_per_row"`
	// PriceCents overrides the event's price; 0 keeps it.
	PriceCents int64 `json:"price_cents,omitempty"`
}

// ItemSettings is a slot or a course.
type ItemSettings struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
	// Capacity is the number of places.
	Capacity int `json:"capacity"`
	// PriceCents overrides the event's price; nil keeps it.
	PriceCents *int64 `json:"price_cents,omitempty"`
	// StartsAt and EndsAt are the time of a slot.
	StartsAt *time.Time `json:"starts_at,omitempty"`
	EndsAt   *time.Time `json:"ends_at,omitempty"`
	// Meetings are the timetable of a course, each like "mon 10:00-11:30" (every
	// week) or "2026-10-05 09:00-12:00".
	Meetings []string `json:"meetings,omitempty"`
}

// Event is an event as it is now.
type Event struct {
	Settings
	State State `json:"state"`
	// Reason says why the state is what it is: operator, schedule, sold_out, database_busy.
	Reason string `json:"reason,omitempty"`
	// Since is when the event came into its state, by its own clock; zero: not known.
	Since time.Time `json:"since,omitzero"`
	// Version grows with every change of settings or state.
	Version int64 `json:"version"`
	// Epoch is the number of times that the store of this event began empty, as a
	// base of its sequences.
	Epoch int64 `json:"-"`

	// Newest is the highest sequence given; each join takes the next.
	Newest Seq `json:"-"`

	// Counts, as of Now.
	Waiting  int64 `json:"waiting"`  // in the line
	Inside   int64 `json:"inside"`   // admitted and entered
	Admitted int64 `json:"admitted"` // promoted since the event was made
	// Entered are those of the admitted who came, and Unclaimed those whose claim time
	// ended before they did, since the event was made.
	Entered   int64 `json:"-"`
	Unclaimed int64 `json:"-"`
	// SoldOut is true from the moment that the last piece is paid, until something
	// comes back.
	SoldOut bool `json:"-"`
	// LaneCounts are the lanes, in their order; Waiting and Inside are over all.
	LaneCounts []LaneCounts `json:"lane_counts,omitempty"`
	// Lane is the one as which ForLane sees the event.
	Lane string `json:"-"`
	// Draw is what is published of the draw, where order is draw.
	Draw *Drawn `json:"draw,omitempty"`

	drawPhase string
	Now       time.Time `json:"now"` // the store's clock
}

// paceCap is the most that may be let in in a second from a lane (from 0; in all,
// without lanes): an estimate goes by less only where less was seen.
func (e *Event) paceCap(lane int) float64 {
	switch {
	case e.PassThrough:
		return PassPerCall * 10 // ticks
	case lane >= len(e.Lanes):
		return e.RatePerS
	default:
		return min(e.RatePerS, e.LaneRate(e.Lanes[lane]))
	}
}

// Undrawn tells whether the order is still to be drawn, so that nobody has a
// position.
func (e *Event) Undrawn() bool {
	return e.drawPhase != "" && e.drawPhase != drawDone && (e.State == Lobby || e.State == Scheduled)
}
