package waitroom

import "cmp"

// The kinds of challenge.
const (
	ChallengeNone      = "none"
	ChallengeALTCHA    = "altcha"
	ChallengeTurnstile = "turnstile"
	ChallengeHCaptcha  = "hcaptcha"
	ChallengeReCaptcha = "recaptcha"
)

// When a challenge is asked for.
const (
	ChallengeOff   = "off"
	ChallengeOn    = "on"
	ChallengeAbove = "above"
)

// What becomes of strangers while a challenge's provider is down.
const (
	ChallengeRefuse = "refuse"
	ChallengePass   = "pass"
)

// ChallengeSettings say what strangers must solve before they join or are issued a token.
type ChallengeSettings struct {
	// Kind is none (default), altcha (proof of work, checked by the service itself), or
	// the provider turnstile, hcaptcha or recaptcha.
	Kind string `json:"kind"`
	// When is on (default): everybody without a place; above: while more than above_per_s
	// of them come in a second to one instance; off: nobody. With on and above, whoever
	// meets the limit of their address is asked as well, instead of being refused.
	When string `json:"when"`
	// AbovePerS is the pace for when above; a puzzle's effort grows beyond it too.
	AbovePerS float64 `json:"above_per_s,omitempty"`
	// OnError is refuse (default) or pass: whether somebody may join while the provider
	// does not answer.
	OnError string `json:"on_error"`
	// SiteKey is the page's key at the provider; it is public.
	SiteKey string `json:"site_key,omitempty"`
}

// Asked tells whether anybody may be asked to solve something.
func (s ChallengeSettings) Asked() bool {
	return s.Kind != "" && s.Kind != ChallengeNone && s.When != ChallengeOff
}

// Defaults fills what is empty with its default.
func (s ChallengeSettings) Defaults() ChallengeSettings {
	s.Kind = cmp.Or(s.Kind, ChallengeNone)
	s.When = cmp.Or(s.When, ChallengeOn)
	s.OnError = cmp.Or(s.OnError, ChallengeRefuse)
	return s
}

func (s ChallengeSettings) faults(d *decoder) {
	d.choice("challenge.kind", s.Kind, []string{ChallengeNone, ChallengeALTCHA, ChallengeTurnstile, ChallengeHCaptcha, ChallengeReCaptcha})
	d.choice("challenge.when", s.When, []string{ChallengeOff, ChallengeOn, ChallengeAbove})
	d.choice("challenge.on_error", s.OnError, []string{ChallengeRefuse, ChallengePass})
	d.number("challenge.above_per_s", s.AbovePerS, mostRate)
	d.text("challenge.site_key", s.SiteKey, 200)
	if s.When == ChallengeAbove && s.AbovePerS == 0 && s.Kind != ChallengeNone {
		d.fault("challenge.above_per_s", "says from which pace on when above asks")
	}
	if provided := s.Kind != ChallengeNone && s.Kind != ChallengeALTCHA; s.SiteKey != "" && !provided {
		d.fault("challenge.site_key", "is for turnstile, hcaptcha and recaptcha")
	}
}
