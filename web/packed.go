package web

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"
)

// packed is a body that many ask for, kept as it is and compressed.
type packed struct {
	plain []byte
	gzip  func() []byte // nil where the body is small; gives nil where compressing gains nothing
}

// pack compresses a body once for all who ask, when the first does who takes it so.
// Fast rather than small: a seat map is new with every sale, and compressing each as
// small as can be was a tenth of an instance's time. Only bodies without secrets may
// be packed: the length of a compressed one tells something of what is in it.
func pack(plain []byte) packed {
	const worthwhile = 1024
	if len(plain) < worthwhile {
		return packed{plain: plain}
	}
	return packed{plain: plain, gzip: sync.OnceValue(func() []byte {
		var b bytes.Buffer
		w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // a level that exists
		_, err := w.Write(plain)
		if err != nil || w.Close() != nil || b.Len() >= len(plain) { // a Buffer never fails
			return nil
		}
		return b.Bytes()
	})}
}

// send answers with whichever form the caller takes.
func (p packed) send(c echo.Context, kind string) error {
	if p.gzip == nil {
		return c.Blob(http.StatusOK, kind, p.plain)
	}
	h := c.Response().Header()
	h.Add("Vary", "Accept-Encoding")
	if takesGzip(c.Request().Header.Get("Accept-Encoding")) {
		if zipped := p.gzip(); zipped != nil {
			h.Set("Content-Encoding", "gzip")
			return c.Blob(http.StatusOK, kind, zipped)
		}
	}
	return c.Blob(http.StatusOK, kind, p.plain)
}

// takesGzip reads Accept-Encoding; "gzip;q=0" is a no.
func takesGzip(accept string) bool {
	for part := range strings.SplitSeq(accept, ",") {
		coding, weight, _ := strings.Cut(strings.TrimSpace(part), ";")
		if !strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			continue
		}
		value, ok := strings.CutPrefix(strings.ReplaceAll(weight, " ", ""), "q=")
		return !ok || strings.Trim(value, "0.") != ""
	}
	return false
}
