package web

import (
	"bytes"
	"net/http"
	"runtime"
	"runtime/pprof"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
)

const (
	// profileMost bounds a profile that takes time: less than the server's writeTimeout.
	profileMost    = 25
	profileUsually = 10
	// blockEvery samples one blocking event for so many nanoseconds blocked.
	blockEvery = 10_000
)

// profile answers what the process does, for `go tool pprof`: cpu and block over so
// many seconds, or heap, allocs, goroutine and mutex as they are.
func (s *Server) profile(c echo.Context) error {
	seconds := profileUsually
	if given := c.QueryParam("seconds"); given != "" {
		n, err := strconv.Atoi(given)
		if err != nil || n < 1 || n > profileMost {
			return wrongField("seconds", "must be a number from 1 to "+strconv.Itoa(profileMost))
		}
		seconds = n
	}
	var out bytes.Buffer
	switch name := c.Param("name"); name {
	case "cpu":
		if err := pprof.StartCPUProfile(&out); err != nil { // another one runs
			return wrongField("name", "a cpu profile is being taken; ask again when it is done")
		}
		<-time.After(time.Duration(seconds) * time.Second)
		pprof.StopCPUProfile()
	case "block":
		runtime.SetBlockProfileRate(blockEvery)
		<-time.After(time.Duration(seconds) * time.Second)
		runtime.SetBlockProfileRate(0)
		_ = pprof.Lookup(name).WriteTo(&out, 0) // a buffer takes everything
	case "heap", "allocs", "goroutine", "mutex":
		_ = pprof.Lookup(name).WriteTo(&out, 0)
	default:
		return errNotFound
	}
	return c.Blob(http.StatusOK, "application/octet-stream", out.Bytes())
}
