package web

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/web/operators"
)

// field is one key that a body may have, where its value goes, and what the
// value must be.
type field struct {
	name string
	to   any
	want string
}

const bodyKey = "web.body"

// readBody takes the whole body in before anything else is looked at, so that
// its size is refused before its sender is.
func (s *Server) readBody(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody || isGateVerdict(c) {
			return next(c)
		}
		most := s.mostBody(c)
		if r.ContentLength > most {
			return errBodyTooLarge
		}
		body, err := io.ReadAll(io.LimitReader(r.Body, most+1))
		if err != nil {
			return errBadJSON // cut short; whoever sent it will hardly read this
		}
		if int64(len(body)) > most {
			c.Response().Header().Set("Connection", "close")
			return errBodyTooLarge
		}
		c.Set(bodyKey, body)
		return next(c)
	}
}

// mostBody is the most bytes of a request's body.
func (s *Server) mostBody(c echo.Context) int64 {
	if c.Path() == routeSheet { // only operators fill our memory
		if o, err := s.operatorOf(c); err == nil && o.Role.May(operators.Runner) {
			return max(s.cfg.MaxBody, mostSheet)
		}
	}
	return s.cfg.MaxBody
}

func bodyOf(c echo.Context) []byte {
	body, _ := c.Get(bodyKey).([]byte)
	return body
}

// optional decodes a body that may be absent altogether.
func optional(c echo.Context, fields ...field) error {
	if len(bodyOf(c)) == 0 {
		return nil
	}
	return required(c, fields...)
}

// required decodes a body of exactly these fields, each of them optional.
func required(c echo.Context, fields ...field) error {
	if !isJSON(c.Request().Header.Get("Content-Type")) {
		return errUnsupportedType
	}
	return decodeObject(bodyOf(c), fields)
}

// isJSON tells whether a content type is JSON in UTF-8.
func isJSON(contentType string) bool {
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil || kind != "application/json" {
		return false
	}
	charset, ok := params["charset"]
	return !ok || strings.EqualFold(charset, "utf-8")
}

// decodeObject is stricter than encoding/json: exact names, no name twice, no
// null, no broken UTF-8, and every wrong field named at once.
func decodeObject(body []byte, fields []field) error {
	if !utf8.Valid(body) || !json.Valid(body) {
		return errBadJSON
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	if first, err := dec.Token(); err != nil || first != json.Delim('{') {
		return wrongField("body", "must be a JSON object")
	}
	var wrong []waitroom.FieldError
	seen := make(map[string]bool, len(fields))
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return errBadJSON
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return errBadJSON
		}
		name, _ := key.(string)
		if detail := decodeField(name, raw, seen, fields); detail != "" {
			wrong = append(wrong, waitroom.FieldError{Field: clip(name), Detail: detail})
		}
		seen[name] = true
		if len(wrong) == maxFieldErrors {
			break
		}
	}
	if len(wrong) > 0 {
		return &waitroom.InvalidError{Fields: wrong}
	}
	return nil
}

// maxFieldErrors bounds what a hostile body can make us say.
const maxFieldErrors = 20

func decodeField(name string, raw json.RawMessage, seen map[string]bool, fields []field) string {
	if seen[name] {
		return "stands twice"
	}
	for _, f := range fields {
		if f.name != name {
			continue
		}
		if string(raw) == "null" || json.Unmarshal(raw, f.to) != nil {
			return "must be " + f.want
		}
		return ""
	}
	return "unknown field"
}

// clip bounds a name that comes from outside.
func clip(name string) string {
	const most = 64
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most], "") + "…"
}
