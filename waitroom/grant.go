package waitroom

import (
	"encoding/base64"
	"fmt"
	"strings"
)

// parseGrant reads a grant as promote and the feed write it:
// "entry seq jti admitted_ms claim_ms subject".
func parseGrant(event EventID, line string) (Grant, error) {
	f := strings.Split(line, " ")
	if len(f) != 6 {
		return Grant{}, unavailable(fmt.Errorf("grant %q has %d fields, want 6", line, len(f)))
	}
	return newGrant(event, f[0], f[2], f[1], f[3], f[4], f[5])
}

// parseGrants reads lines of grants.
func parseGrants(event EventID, lines string) ([]Grant, error) {
	if lines == "" {
		return nil, nil
	}
	grants := make([]Grant, 0, strings.Count(lines, "\n")+1)
	for line := range strings.SplitSeq(lines, "\n") {
		g, err := parseGrant(event, line)
		if err != nil {
			return nil, err
		}
		grants = append(grants, g)
	}
	return grants, nil
}

// parsePacked reads a grant as the store keeps it, "jti seq admitted_ms claim_ms
// state subject", and the end of its claim or session.
func parsePacked(event EventID, entry, packed string, deadlineMS int64) (Grant, error) {
	f := strings.Split(packed, " ")
	if len(f) != 6 {
		return Grant{}, unavailable(fmt.Errorf("grant %q has %d fields, want 6", packed, len(f)))
	}
	g, err := newGrant(event, entry, f[0], f[1], f[2], f[3], f[5])
	if err != nil {
		return Grant{}, err
	}
	g.State = EntryState(f[4])
	if g.State == EntryEntered {
		g.SessionEnds = millis(deadlineMS)
	}
	return g, nil
}

func newGrant(event EventID, entry, jti, seq, admitted, claim, subject string) (Grant, error) {
	n, err := numbers(seq, admitted, claim)
	if err != nil {
		return Grant{}, err
	}
	if entry == "" || jti == "" {
		return Grant{}, unavailable(fmt.Errorf("grant: %w: no entry or no token", errReply))
	}
	g := Grant{
		Event: event, Entry: EntryID(entry), Seq: Seq(n[0]), Subject: entry, JTI: jti,
		AdmittedAt: millis(n[1]), ClaimBy: millis(n[2]), State: EntryAdmitted,
	}
	if subject != "-" {
		b, err := base64.RawURLEncoding.DecodeString(subject)
		if err != nil {
			return Grant{}, unavailable(fmt.Errorf("grant of %s: subject: %w", entry, err))
		}
		g.Subject = string(b)
	}
	return g, nil
}
