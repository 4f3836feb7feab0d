package events

import "time"

// Crowd is who comes to a ready-made event, in the figures of system A, for trying it
// out: what no setting says.
type Crowd struct {
	// People is how many come, and Over the time from the first to the last.
	People int
	Over   time.Duration
	// Shape is how they come: burst (most at first), steady, or flash (half at once).
	Shape string
	// Early is how long before the opening the first ones come.
	Early time.Duration
	// Pool is the number of connections of the site's database, and Purchase how long
	// a buyer holds one on average.
	Pool     int
	Purchase time.Duration
	// Look is the time from coming in to the purchase, on average.
	Look time.Duration
	// NoShows is the share who are let in and never come, Buy that of the others who buy.
	NoShows, Buy float64
}

// Crowds are the crowds of the presets that have one.
var Crowds = map[string]Crowd{
	"demo": {
		People: 10_000, Over: 2 * time.Minute, Shape: "burst",
		Pool: 40, Purchase: 1500 * time.Millisecond, Look: 20 * time.Second, NoShows: 0.1, Buy: 0.5,
	},
	"token-drop": {
		People: 10_000, Over: 10 * time.Second, Shape: "burst",
		Pool: 40, Purchase: 200 * time.Millisecond, Look: 10 * time.Second, NoShows: 0.1, Buy: 0.9,
	},
	"wristband": {
		People: 1300, Over: time.Second, Shape: "burst",
		Pool: 40, Purchase: 20 * time.Millisecond, Look: time.Second, NoShows: 0, Buy: 1,
	},
	"winner": {
		People: 2000, Over: 10 * time.Second, Shape: "burst",
		Pool: 40, Purchase: 20 * time.Millisecond, Look: time.Second, NoShows: 0, Buy: 1,
	},
	"vaccination": {
		People: 5000, Over: time.Minute, Shape: "burst",
		Pool: 40, Purchase: 50 * time.Millisecond, Look: 20 * time.Second, NoShows: 0.05, Buy: 0.9,
	},
	"concert": {
		People: 200_000, Over: 5 * time.Minute, Shape: "burst", Early: time.Minute,
		Pool: 100, Purchase: 250 * time.Millisecond, Look: 20 * time.Second, NoShows: 0.1, Buy: 0.6,
	},
	"flash-sale": {
		People: 500_000, Over: 100 * time.Second, Shape: "burst", Early: 5 * time.Second,
		Pool: 200, Purchase: 40 * time.Millisecond, Look: 2 * time.Second, NoShows: 0.1, Buy: 0.9,
	},
	"game-login": {
		People: 200_000, Over: time.Minute, Shape: "burst", Early: 10 * time.Second,
		Pool: 400, Purchase: 20 * time.Millisecond, Look: 2 * time.Second, NoShows: 0.02, Buy: 1,
	},
	"course-registration": {
		People: 10_000, Over: 20 * time.Second, Shape: "steady", Early: 10 * time.Second,
		Pool: 60, Purchase: 100 * time.Millisecond, Look: 30 * time.Second, NoShows: 0.05, Buy: 0.95,
	},
}
