package hub

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// sampleEvery is the time between two samples for an operator.
const sampleEvery = time.Second

// ServeOps answers with a WebSocket that carries one metrics sample of the event a
// second, and returns when it ends. The caller has checked the operator's token; ended
// tells, before each sample, whether it counts no more.
//
// Refusals: 403 forbidden (a foreign origin), 404 not_found (no samples here), 503
// unavailable with Retry-After (MaxOps, or draining), 400 invalid (no handshake).
func (h *Hub) ServeOps(w http.ResponseWriter, r *http.Request, event waitroom.EventID, ended func(context.Context) bool) {
	switch {
	case h.deps.Sample == nil:
		h.deps.Refuse(w, r, http.StatusNotFound, "not_found", 0)
		return
	case !h.originAllowed(r):
		h.deps.Refuse(w, r, http.StatusForbidden, "forbidden", 0)
		return
	}
	if !h.claimOps() {
		h.deps.Refuse(w, r, http.StatusServiceUnavailable, "unavailable", h.comeBack("", ""))
		return
	}
	defer h.watchers.Done()
	defer h.ops.Add(-1)
	up := websocket.Upgrader{CheckOrigin: h.originAllowed, Error: func(w http.ResponseWriter, r *http.Request, _ int, _ error) {
		h.deps.Refuse(w, r, http.StatusBadRequest, "invalid", 0)
	}}
	ws, err := up.Upgrade(w, r, nil)
	if err != nil {
		return // answered, or the peer is gone
	}
	ctx, cancel := context.WithCancel(r.Context())
	var reader sync.WaitGroup
	reader.Go(func() {
		defer cancel()
		ws.SetReadLimit(maxMessage)
		for {
			if _, _, err := ws.NextReader(); err != nil {
				return
			}
		}
	})
	code := h.samples(ctx, ws, event, ended)
	_ = ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(int(code.Code), code.Reason), time.Now().Add(time.Second)) // the peer may be gone
	closeConn(ws.NetConn())
	reader.Wait()
}

// claimOps counts an operator's socket in, if there is room for one.
func (h *Hub) claimOps() bool {
	h.gate.RLock()
	defer h.gate.RUnlock()
	if !h.running {
		return false
	}
	if h.ops.Add(1) > int64(h.cfg.MaxOps) {
		h.ops.Add(-1)
		return false
	}
	h.watchers.Add(1)
	return true
}

// samples writes samples until ctx or the hub ends, the operator's token counts no more,
// or the socket does not take one in time; it says with which code the socket ends.
func (h *Hub) samples(ctx context.Context, ws *websocket.Conn, event waitroom.EventID, ended func(context.Context) bool) Code {
	normal := Code{Code: codeNormal}
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		call, cancel := context.WithTimeout(ctx, h.cfg.StoreTimeout)
		over := ended(call)
		var data []byte
		var err error
		if !over {
			data, err = h.deps.Sample(call, event)
		}
		cancel()
		switch {
		case ctx.Err() != nil:
			return normal
		case over:
			return CodeNoOperator
		case err != nil:
			h.log.Warn("no sample", zap.String("event", string(event)), zap.Error(err))
		default:
			_ = ws.SetWriteDeadline(time.Now().Add(h.cfg.WriteTimeout)) // never fails
			if ws.WriteMessage(websocket.TextMessage, data) != nil {
				return normal
			}
		}
		select {
		case <-ctx.Done():
			return normal
		case <-h.stopped:
			return CodeRestart
		case <-tick.C:
		}
	}
}
