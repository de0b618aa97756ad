from __future__ import annotations
import os, pytest
from tests.web.browsing import chromium, open_page, session_of
from tests.web.conftest import *  # noqa
OUT="/tmp/shots"
os.makedirs(OUT, exist_ok=True)
def test_shots(live_server, made, world):
    s=session_of(world.ana)
    want=os.environ.get("SHOTS","").split(",")
    pages={"home":"/","runs":"/runs/","runs-none":"/runs/?name=zzz","new":"/runs/new/","run":f"/runs/{made['resnet50'].public_id}/","wait":f"/runs/{made['bert-large'].public_id}/?tab=events","failed":f"/runs/{made['unet-3d'].public_id}/?tab=cost","manifests":f"/runs/{made['resnet50'].public_id}/?tab=manifests","endpoints":"/endpoints/","endpoint":f"/endpoints/{made['digits'].public_id}/","update":f"/endpoints/{made['digits'].public_id}/?tab=update","team":"/teams/vision/","profile":"/profile/","404":"/runs/00000000-0000-4000-8000-000000000000/"}
    sizes=os.environ.get("SIZES","1440:light").split(",")
    with chromium() as b:
        for size in sizes:
            w,theme=size.split(":")
            page,c=open_page(b,live_server.url,s,width=int(w),theme=theme)
            for n,u in pages.items():
                if want!=[""] and n not in want: continue
                page.goto(u); page.wait_for_timeout(250)
                if n=="new":
                    page.fill("#id_name","resnet50-b"); page.fill("#id_image","registry.example.org/train:1.4"); page.fill("#id_command","python\ntrain.py\n--epochs=10")
                    page.check('input[name=flavor][value="a100-40gb"]'); page.fill("#id_gpus","4"); page.wait_for_timeout(1500)
                page.screenshot(path=f"{OUT}/{n}-{w}-{theme}.png",full_page=True)
                print(n, w, page.evaluate("[document.documentElement.scrollWidth, innerWidth]"))
            print("complaints",c)
        if want==[""] or "signin" in want:
            page,c=open_page(b,live_server.url,"",width=1440); page.goto("/sign-in/"); page.screenshot(path=f"{OUT}/signin.png"); print(c)
