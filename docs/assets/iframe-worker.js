/* Search from a folder: browsers start no worker from file://, so the search's script runs in a hidden frame instead. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      this.waiting = []
      document.documentElement.append(this.frame)
      const page = this.frame.contentDocument
      page.open()
      page.write(
        "<script>postMessage = (data) => parent.dispatchEvent(new CustomEvent('from-worker', { detail: data }));" +
        "importScripts = () => Promise.resolve()</script>" +
        `<script src="${url}"></script>`
      )
      page.close()
      this.frame.contentWindow.addEventListener("load", () => {
        this.ready = true
        this.waiting.splice(0).forEach((data) => this.tell(data))
      })
      addEventListener("from-worker", (event) => {
        this.dispatchEvent(new MessageEvent("message", { data: event.detail }))
      })
    }
    postMessage(data) {
      this.ready ? this.tell(data) : this.waiting.push(data)
    }
    tell(data) {
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }))
    }
    terminate() {
      this.frame.remove()
    }
  }
}
