module github.com/flux-elastic/flux-elastic/hack/browser

go 1.26.0

require (
	github.com/chromedp/cdproto v0.160.0
	github.com/chromedp/chromedp v0.23.0
)

require github.com/go-json-experiment/json v0.0.0-20260214004413-d219187c3433 // indirect
