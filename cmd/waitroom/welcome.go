package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// welcome prints where to look, for people; machines have the log.
func (s *service) welcome(p plan, logins []login) {
	if s.cfg.LogFormat != "console" {
		if s.cfg.OperatorToken == "" {
			fmt.Println("operator token:", s.token) // once, and not into the log
		}
		return
	}
	fmt.Fprint(os.Stderr, s.greeting(p, logins))
}

// greeting names, of several events, the first.
func (s *service) greeting(p plan, logins []login) string {
	var b strings.Builder
	line := func(label, value string) { fmt.Fprintf(&b, "  %-14s %s\n", label, value) }
	b.WriteString("\nWaitroom is open.\n\n")
	first := p.events[0].settings
	page := s.publicURL + "/e/" + string(first.ID)
	if first.ID == demoPreset {
		page = s.publicURL + "/"
	}
	line("waiting page", page)
	if first.Tickets.Kind != "none" {
		line("shop", s.publicURL+"/e/"+string(first.ID)+"/shop")
	}
	line("console", s.publicURL+"/console")
	if s.cfg.OperatorToken == "" {
		line("operator token", s.token)
	}
	if first.Mode == waitroom.ModeQueue && first.Identity != "jwt" { // load's people stand in line, and nobody knows them
		line("a crowd", fmt.Sprintf("%s load --target %s --event %s --users 2000 --ramp 10s --hold 30s --buy 0.5", os.Args[0], s.publicURL, first.ID))
	}
	for _, l := range logins {
		line("a login", fmt.Sprintf("%s of %s, for Authorization: Bearer (the secret is random; see identity-secret)\n    %s", l.group, l.event, l.token))
	}
	b.WriteString("\nCtrl-C ends it.\n\n")
	return b.String()
}
