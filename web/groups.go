package web

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// groupBody is what everybody may know of a group: not who is in it.
type groupBody struct {
	Name     string `json:"name"`
	Codes    bool   `json:"codes,omitempty"`
	Lane     string `json:"lane,omitempty"`
	OpensAt  *stamp `json:"opens_at,omitempty"`
	ClosesAt *stamp `json:"closes_at,omitempty"`
}

func groupsOf(s waitroom.Settings) []groupBody {
	var groups []groupBody
	for _, g := range s.Groups {
		groups = append(groups, groupBody{g.Name, g.Codes, g.Lane, stampOf(g.OpensAt), stampOf(g.ClosesAt)})
	}
	return groups
}

// laneBody is what everybody may know of a lane.
type laneBody struct {
	Name     string  `json:"name"`
	Waiting  int64   `json:"waiting"`
	RatePerS float64 `json:"rate_per_s"`
	Paused   bool    `json:"paused,omitempty"`
}

func lanesOf(ev waitroom.Event) []laneBody {
	var lanes []laneBody
	for _, l := range ev.LaneCounts {
		lanes = append(lanes, laneBody{l.Name, l.Waiting, l.RatePerS, l.Paused})
	}
	return lanes
}

// opsCodes adds codes to a group.
func (s *Server) opsCodes(c echo.Context) error {
	id, err := eventID(c)
	if err != nil {
		return err
	}
	req, uses := waitroom.CodesRequest{Event: id, By: by(c)}, 1
	if err := required(
		c, field{"group", &req.Group, "the name of a group"}, field{"codes", &req.Codes, "a list of strings"},
		field{"uses", &uses, "a whole number; 0 is any number"},
	); err != nil {
		return err
	}
	req.Uses, req.Unlimited = uses, uses == 0
	added, err := s.deps.Operations.AddCodes(c.Request().Context(), req)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, struct {
		Added int `json:"added"`
	}{added})
}
